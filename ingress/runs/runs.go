// Package runs translates the bodies of the run routes to runs. It performs
// nothing and knows no HTTP.
package runs

import (
	stdjson "encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"weir/ingress/executor"
	"weir/ingress/plans"
	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/internal/jsonschema"
	"weir/internal/problem"
	"weir/schemas"
)

// Request is one body, read and not yet looked into.
type Request struct {
	// ID is the caller's request_id. It is set beside an error too, if the body
	// has a valid one.
	ID    string
	Order schemas.RunOrder
}

// document is a body with raw members, so that each is refused by its own name. Members
// that it does not have are ignored: callers add their own, such as trace_id, and renew
// them with every retry. They are no part of what is stored.
type document struct {
	RequestID  jsontext.Value `json:"request_id"`
	TaskType   jsontext.Value `json:"task_type"`
	WorkflowID jsontext.Value `json:"workflow_id"`
	StageID    jsontext.Value `json:"stage_id"`
	UserID     jsontext.Value `json:"user_id"`
	Mode       jsontext.Value `json:"mode"`
	RiskTier   jsontext.Value `json:"risk_tier"`
	DomainID   jsontext.Value `json:"domain_id"`
	Inputs     jsontext.Value `json:"inputs"`
	Budgets    jsontext.Value `json:"budgets"`
}

// Read reads a body that strict.Check has passed. It looks at all but the
// inputs, of which it knows only that they are an object. longest is the most time
// that a run may ask for. Its errors are *fault.Error with VALIDATION_ERROR, or
// INVALID_REQUEST for a body that is no object, and show no value of the body.
func Read(body []byte, longest time.Duration) (Request, error) {
	req := Request{ID: idOf(body)}
	var doc document
	if err := strict.Open("", body, &doc); err != nil {
		return req, err
	}
	if err := names(&req, doc); err != nil {
		return req, err
	}
	if err := labels(&req.Order, doc); err != nil {
		return req, err
	}
	if !strict.Absent(doc.Inputs) {
		if strict.Kind(doc.Inputs) != '{' {
			return req, refuse("inputs", "must be an object")
		}
		req.Order.Inputs = stdjson.RawMessage(doc.Inputs)
	}
	return req, budgets(&req.Order, doc.Budgets, longest)
}

// idOf is the id that a body names, whatever else is wrong with it, or "".
func idOf(body []byte) string {
	var members map[string]jsontext.Value
	if strict.Kind(body) != '{' || json.Unmarshal(body, &members) != nil {
		return ""
	}
	id, ok := strict.String(members["request_id"])
	if !ok || !schemas.ValidID(id) {
		return ""
	}
	return id
}

// names reads the two members that must be there.
func names(req *Request, doc document) error {
	const form = " of the characters A-Z a-z 0-9 . _ : -"
	if strict.Absent(doc.RequestID) {
		return refuse("request_id", "is missing; name the run, with a new id for a new one")
	}
	if req.ID == "" {
		return refuse("request_id", "must be 1 to 128"+form)
	}
	if strict.Absent(doc.TaskType) {
		return refuse("task_type", "is missing; name the task type to run")
	}
	name, ok := strict.String(doc.TaskType)
	if !ok || !schemas.ValidTaskType(name) {
		return refuse("task_type", "must be 1 to "+strconv.Itoa(schemas.MaxAgentTask)+form)
	}
	req.Order.TaskType = name
	return nil
}

// Builtin reports whether Weir serves a task type by itself.
func Builtin(taskType string) bool { return slices.Contains(schemas.BuiltinTasks(), taskType) }

// Unsupported is the error for a task type that has no agent.
func Unsupported() error {
	return fault.New(schemas.UnsupportedTaskType, "there is no agent for this task_type; name one that is configured, or one of HTTP_EXECUTE, HTTP_PLAN and ECHO")
}

// Run is a run that may be stored.
type Run struct {
	schemas.Run
	// Denied: ingress evaluated policy and it refused the call of HTTP_EXECUTE. The run must be
	// stored anyway, so that the denial has evidence.
	Denied bool
	// Unserved: there is no agent for its task type, so that it may join a run that
	// was accepted while there was one, and begin none.
	Unserved bool
}

// Translate looks into the inputs of the task types that Weir serves itself,
// by the rules of the routes that serve the same. Those of every other type go
// on as they are. Its errors are *fault.Error or *problem.Error.
func Translate(o schemas.RunOrder, p executor.Policy, compiled *jsonschema.Cache) (Run, error) {
	run := Run{Run: schemas.Run{RunOrder: o}}
	switch o.TaskType {
	case schemas.TaskHTTPExecute:
		return run, call(&run, p, compiled)
	case schemas.TaskHTTPPlan:
		return run, plan(&run)
	case schemas.TaskEcho:
		return run, echo(o.Inputs)
	default:
		return run, nil
	}
}

func refuse(member, what string) error {
	return fault.New(schemas.ValidationError, "at /"+member+": "+what)
}

// given is the inputs as a document.
func given(inputs stdjson.RawMessage) []byte {
	if len(inputs) == 0 {
		return []byte("{}")
	}
	return inputs
}

func call(run *Run, p executor.Policy, compiled *jsonschema.Cache) error {
	req, err := executor.Translate(given(run.Inputs), p, compiled)
	if err != nil {
		return inside(err)
	}
	if req.ID != "" {
		return twoNames()
	}
	run.Inputs, run.Call, run.Denied = nil, &req.Call, req.Denied()
	return nil
}

func plan(run *Run) error {
	req, err := plans.Translate(given(run.Inputs))
	if err != nil {
		return inside(err)
	}
	if req.RequestID != "" {
		return twoNames()
	}
	run.Inputs, run.Plan = nil, &req
	return nil
}

func twoNames() error {
	return refuse("inputs/request_id", "a run has one name, the request_id beside inputs; leave this one out")
}

// inside words what is wrong with inputs as a fault of the run that they are
// part of. The executor's variant and code go into the details.
func inside(err error) error {
	p := problem.Error{Problem: schemas.Problem{Code: schemas.ValidationError}, Cause: err}
	if own, ok := errors.AsType[*executor.Error](err); ok {
		p.Detail = "in inputs: " + own.Message
		p.Details, _ = json.Marshal(struct {
			Variant string       `json:"variant"`
			Code    schemas.Code `json:"code"`
		}{own.Variant, own.Code}) // two words: cannot fail
		return &p
	}
	if public, ok := errors.AsType[*fault.Error](err); ok {
		p.Detail = "in inputs: " + public.Message
		return &p
	}
	return err
}
