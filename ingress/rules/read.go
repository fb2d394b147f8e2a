// Package rules reads the requests of the agent API. It performs nothing and
// knows no HTTP.
package rules

import (
	stdjson "encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/schemas"
)

// The longest of what every answer repeats, in bytes.
const (
	maxRequestID = 256
	maxOperation = 64
)

// Read reads a body that strict.Check has passed: the envelope, or the request alone. Unknown
// members are ignored, except misspelled ones of its own. Even with an error, the request holds the
// request_id, operation and auth_token that could be read. Its errors are *fault.Error with
// INVALID_REQUEST, show no value of the body, and name positions in the request, with or without an
// envelope.
func Read(body []byte) (schemas.AgentRequest, error) {
	var req schemas.AgentRequest
	if strict.Kind(body) != '{' {
		return req, refuse("", "the body must be a JSON object")
	}
	raw, err := inner(body)
	if raw == nil {
		return req, err
	}
	m := membersOf(raw)
	req.RequestID, req.Operation = repeated(m["request_id"], maxRequestID), repeated(m["operation"], maxRequestID)
	token, isText := strict.String(m["auth_token"])
	req.AuthToken = token
	if err == nil {
		err = strict.Spelling("", raw, schemas.AgentRequest{})
	}
	if err != nil {
		return req, err
	}
	if id, ok := strict.String(m["request_id"]); !ok || id == "" || len(id) > maxRequestID || strings.ContainsFunc(id, unicode.IsControl) {
		return req, refuse("/request_id", "must be a string of 1 to "+strconv.Itoa(maxRequestID)+" bytes without control characters")
	}
	if op, ok := strict.String(m["operation"]); !ok || op == "" || len(op) > maxOperation {
		return req, refuse("/operation", "must be the name of an operation, such as "+schemas.OpStatus)
	}
	if !isText && !strict.Absent(m["auth_token"]) {
		return req, refuse("/auth_token", "must be a string")
	}
	args := m["args"]
	if strict.Absent(args) {
		args = jsontext.Value(`{}`)
	}
	if strict.Kind(args) != '{' {
		return req, refuse("/args", "must be an object")
	}
	req.Args = stdjson.RawMessage(args)
	return req, nil
}

// inner finds the request in a body. It is nil where there is none.
func inner(body []byte) (raw jsontext.Value, err error) {
	m := membersOf(body)
	if err := strict.Spelling("", body, schemas.AgentEnvelope{}); err != nil {
		return m["request"], err
	}
	typed := !strict.Absent(m["type"])
	if _, enveloped := m["request"]; !typed && !enveloped {
		return body, nil
	}
	raw = m["request"]
	if strict.Kind(raw) != '{' {
		return nil, refuse("/request", "must be an object; send it as {\"type\":\""+schemas.AgentAPIType+"\",\"request\":{…}}, or alone")
	}
	if kind, ok := strict.String(m["type"]); typed && (!ok || kind != schemas.AgentAPIType) {
		err = refuse("/type", "must be "+schemas.AgentAPIType)
	}
	return raw, err
}

// membersOf reads an object; of anything else it gives none.
func membersOf(raw []byte) map[string]jsontext.Value {
	var m map[string]jsontext.Value
	if strict.Kind(raw) != '{' || json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

// repeated is a text in the form that an answer repeats, or "" for an overlong or malformed one.
func repeated(v jsontext.Value, most int) string {
	s, ok := strict.String(v)
	if !ok || len(s) > most {
		return ""
	}
	return s
}

// Known refuses an operation that there is not.
func Known(operation string) error {
	if Reads(operation) || slices.Contains(schemas.AgentWrites(), operation) {
		return nil
	}
	return fault.New(schemas.InvalidRequest, "there is no such operation; there are "+
		strings.Join(slices.Concat(schemas.AgentReads(), schemas.AgentWrites()), ", "))
}

// Reads reports whether an operation changes nothing.
func Reads(operation string) bool { return slices.Contains(schemas.AgentReads(), operation) }

// Scopes are those of which a token needs one for an operation; none: any token
// will do.
func Scopes(operation string) []string {
	switch {
	case operation == schemas.OpPing:
		return nil
	case Reads(operation):
		return ReadScopes()
	default:
		return []string{schemas.ScopeRulesWrite}
	}
}

// ReadScopes are those of which a token needs one to see the rules.
func ReadScopes() []string { return []string{schemas.ScopeActionsRead, schemas.ScopeRulesWrite} }

func refuse(pointer, what string) error {
	if pointer != "" {
		what = "at " + pointer + ": " + what
	}
	return fault.New(schemas.InvalidRequest, what)
}

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
