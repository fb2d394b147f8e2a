package rules

import (
	stdjson "encoding/json"

	"github.com/go-json-experiment/json/jsontext"

	"weir/ingress/strict"
	"weir/internal/problem"
	"weir/schemas"
)

// arguments are the names of all operations' arguments. Those of another operation
// are ignored like unknown ones.
type arguments struct {
	Group       string `json:"group"`
	CreateGroup string `json:"create_group_if_missing"`
	Rule        string `json:"rule"`
	ID          string `json:"id"`
	Patch       string `json:"patch"`
	IfMatch     string `json:"if_match"`
}

// CheckRead looks into the arguments of an operation that changes nothing.
func CheckRead(req schemas.AgentRequest) error {
	a, err := argumentsOf(req)
	if err != nil {
		return err
	}
	switch req.Operation {
	case schemas.OpRulesList:
		_, err = a.text("group", optional)
	case schemas.OpRulesGet:
		_, err = a.text("id", required)
	}
	return err
}

// Order translates a write operation. It does not check the content of a rule or a patch. The error
// names the first argument that is missing or of the wrong type, if_match first.
func Order(req schemas.AgentRequest, caller string) (schemas.RuleOrder, error) {
	o := schemas.RuleOrder{Operation: req.Operation, RequestID: req.RequestID, Caller: caller}
	a, err := argumentsOf(req)
	if err != nil {
		return o, err
	}
	if o.IfMatch, err = a.ifMatch(); err != nil {
		return o, err
	}
	switch req.Operation {
	case schemas.OpRulesCreate:
		if o.Group, err = a.text("group", optional); err != nil {
			return o, err
		}
		if o.CreateGroup, err = a.flag("create_group_if_missing"); err != nil {
			return o, err
		}
		o.Rule, err = a.document("rule")
	case schemas.OpRulesPatch:
		if o.ID, err = a.text("id", required); err != nil {
			return o, err
		}
		o.Patch, err = a.document("patch")
	case schemas.OpRulesEnable, schemas.OpRulesDisable:
		o.ID, err = a.text("id", required)
	}
	return o, err
}

type args map[string]jsontext.Value

func argumentsOf(req schemas.AgentRequest) (args, error) {
	if err := strict.Spelling(pointer, req.Args, arguments{}); err != nil {
		return nil, err
	}
	return membersOf(req.Args), nil
}

// pointer is the JSON pointer of the arguments in a request.
const pointer = "/args"

const (
	optional = false
	required = true
)

// text is an argument that is a string, and not an empty one if it is required.
func (a args) text(name string, needed bool) (string, error) {
	if strict.Absent(a[name]) {
		if needed {
			return "", refuse(pointer+"/"+name, "is missing")
		}
		return "", nil
	}
	s, ok := strict.String(a[name])
	if !ok || needed && s == "" {
		return "", refuse(pointer+"/"+name, "must be a string that is not empty")
	}
	return s, nil
}

func (a args) flag(name string) (bool, error) {
	switch strict.Kind(a[name]) {
	case 't':
		return true, nil
	case 'f', 'n', 0:
		return false, nil
	default:
		return false, refuse(pointer+"/"+name, "must be true or false")
	}
}

// document is a required argument; the worker checks its content.
func (a args) document(name string) (stdjson.RawMessage, error) {
	if strict.Absent(a[name]) {
		return nil, refuse(pointer+"/"+name, "is missing")
	}
	return stdjson.RawMessage(a[name]), nil
}

func (a args) ifMatch() (string, error) {
	if s, ok := strict.String(a["if_match"]); ok && s != "" && s != "*" {
		return s, nil
	}
	return "", &problem.Error{Problem: schemas.Problem{
		Code:   schemas.InvalidRequest,
		Detail: "at " + pointer + "/if_match: must be the rules_etag that status or rules.list gave",
	}, Word: schemas.DetailIfMatchRequired}
}
