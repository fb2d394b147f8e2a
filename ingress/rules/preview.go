package rules

import (
	stdjson "encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"weir/ingress"
	"weir/ingress/executor"
	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/internal/traffic"
	"weir/schemas"
)

// Question is what a preview is about.
type Question struct {
	Call  schemas.HTTPCall
	Facts traffic.Facts
	// Rule is looked at as if it were in the set, in the place of the one with its
	// id; nil: the set as it is. It is enabled and was checked.
	Rule *schemas.Rule
}

func (h handlers) preview(c *gin.Context) error {
	body, err := h.server.Read(c)
	if err != nil {
		return err
	}
	req, rule, err := ReadPreview(body, h.server.Now())
	if err != nil {
		return err
	}
	call, err := executor.Asked(req.ExplainRequest)
	if err != nil {
		return err
	}
	who := ingress.Caller(c)
	q := Question{Call: call, Facts: Facts(req.Scope, who.ID), Rule: rule}
	out, err := h.Preview(c.Request.Context(), who.Asks(q.Facts.Kind, q.Facts.TaskType), q)
	if err != nil {
		return err
	}
	ingress.WriteJSON(c, http.StatusOK, out)
	return nil
}

func (h handlers) record(c *gin.Context) error {
	body, err := h.server.Read(c)
	if err != nil {
		return err
	}
	req, err := ReadRecord(body, h.server.Now())
	if err != nil {
		return err
	}
	who := ingress.Caller(c)
	h.Record(c.Writer, c.Request, who.Tenant, who.ID, req)
	return nil
}

// ReadPreview reads a checked body of POST /v1/rules/preview, and the rule in it;
// nil: there is none. Its errors are *fault.Error.
func ReadPreview(body []byte, now time.Time) (schemas.PreviewRequest, *schemas.Rule, error) {
	var req schemas.PreviewRequest
	if err := strict.Decode(body, &req); err != nil {
		return req, nil, err
	}
	if req.URL == "" {
		return req, nil, wrong("/url", "is missing; name the target of the call")
	}
	if s := req.Scope; s != nil && s.ActionKind != "" && !slices.Contains(schemas.Kinds(), s.ActionKind) {
		return req, nil, wrong("/scope/action_kind", "is no kind of action")
	}
	if strict.Absent(jsontext.Value(req.Rule)) {
		return req, nil, nil
	}
	rule, err := traffic.Read(req.Rule, now)
	if err != nil {
		return req, nil, invalid("/rule", err)
	}
	rule.Enabled = true
	return req, &rule, nil
}

// Facts are the properties that rule scopes are matched against, for a hypothetical call: its agent
// is any that a scope may mean.
func Facts(scope *schemas.RuleScope, principal string) traffic.Facts {
	f := traffic.Facts{Kind: schemas.KindHTTP, Principal: principal}
	if scope == nil {
		return f
	}
	switch {
	case scope.ActionKind != "":
		f.Kind = scope.ActionKind
	case scope.TaskID != "":
		f.Kind = schemas.KindPush // all that a task has called is its repository
	}
	if scope.Agent != "" {
		f.Principal = scope.Agent
		if f.Kind == schemas.KindRun {
			f.TaskType = scope.Agent
		}
	}
	f.ActionID = scope.RequestID
	if f.Kind == schemas.KindPush || f.Kind == schemas.KindTask { // actions of the other kinds belong to no task, whatever is asked
		f.TaskID = scope.TaskID
	}
	return f
}

// ReadRecord reads a checked body of POST /v1/rules/record. Its errors are
// *fault.Error.
func ReadRecord(body []byte, now time.Time) (schemas.RecordRequest, error) {
	var doc struct {
		ActionID  string             `json:"action_id"`
		Group     string             `json:"group"`
		Scope     *schemas.RuleScope `json:"scope"`
		ExpiresAt jsontext.Value     `json:"expires_at"`
	}
	req := schemas.RecordRequest{}
	if err := strict.Decode(body, &doc); err != nil {
		return req, err
	}
	switch {
	case doc.ActionID == "":
		return req, wrong("/action_id", "is missing; name an action that has ended")
	case doc.Group != "" && !schemas.ValidID(doc.Group):
		return req, wrong("/group", "must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -")
	}
	req = schemas.RecordRequest{ActionID: doc.ActionID, Group: doc.Group, Scope: doc.Scope}
	if !strict.Absent(doc.ExpiresAt) {
		if err := json.Unmarshal(doc.ExpiresAt, &req.ExpiresAt); err != nil {
			return req, wrong("/expires_at", "must be a time such as 2026-01-02T15:04:05Z")
		}
	}
	return req, given(req, now)
}

// given refuses a scope and an expiry that no rule can have.
func given(req schemas.RecordRequest, now time.Time) error {
	sample, err := stdjson.Marshal(schemas.Rule{
		ID: "sample", Group: schemas.DefaultGroup, Type: schemas.RuleMock, Enabled: true,
		Match: schemas.RuleMatch{URLPattern: "http://localhost/", Method: "ANY"}, Scope: req.Scope, ExpiresAt: req.ExpiresAt,
	})
	if err != nil {
		return wrong("/expires_at", "is no time that can be written down")
	}
	_, err = traffic.Read(sample, now)
	return invalid("", err)
}

// invalid is the error for an invalid rule at a position in the body.
func invalid(base string, err error) error {
	if bad, ok := errors.AsType[*traffic.Invalid](err); ok {
		pointer := base + bad.Pointer
		return &fault.Error{Code: schemas.ValidationError, Message: "at " + pointer + ": " + bad.Message, Cause: err}
	}
	return err
}

func wrong(pointer, what string) error {
	return fault.New(schemas.ValidationError, "at "+pointer+": "+what)
}
