package runs

import (
	"encoding/json"

	"github.com/tidwall/gjson"

	"weir/egress/stream"
	"weir/internal/ledger"
	"weir/schemas"
)

// reason is the details of an error for a run without details of its own: a code of Weir, and where
// a person can resolve the run.
type reason struct {
	Code       schemas.Code `json:"code,omitempty"`
	ResolveURL string       `json:"resolve_url,omitempty"`
}

// failed is the error of a run that did not succeed: the stored one, if any. For a run with an
// unknown end, every caller gets the same error.
func failed(ref schemas.Ref, s *schemas.Settled, res schemas.RunResult) (*schemas.RunError, error) {
	switch {
	case s.Outcome == schemas.OutcomeUnknown:
		return because(schemas.TaskFailed, s.UnknownText(ref.ID), reason{Code: schemas.OutcomeUnknownCode, ResolveURL: stream.ResolveURL(ref.ID)}), nil
	case res.HTTP != nil:
		return refused(ref, s, res)
	case res.Error == nil:
		return because(codeOf(s), messageOf(s), reason{Code: s.Code}), nil
	}
	own := *res.Error
	if own.Code == "" {
		own.Code = string(codeOf(s))
	}
	if own.Message == "" {
		own.Message = messageOf(s)
	}
	if !object(own.Details) {
		own.Details = nil
	}
	return &own, nil
}

func because(code schemas.Code, message string, why reason) *schemas.RunError {
	e := &schemas.RunError{Code: string(code), Message: message}
	if why.Code == code {
		why.Code = ""
	}
	if why != (reason{}) {
		e.Details, _ = ledger.Encode(why) // two strings: cannot fail
	}
	return e
}

// refused is the error of HTTP_EXECUTE: its details are the error that the
// executor's callers get.
func refused(ref schemas.Ref, s *schemas.Settled, res schemas.RunResult) (*schemas.RunError, error) {
	body, err := called(ref, s, res.HTTP)
	if err != nil {
		return nil, err
	}
	failure := gjson.GetBytes(body, "error")
	return &schemas.RunError{Code: string(schemas.TaskFailed), Message: failure.Get("message").Str, Details: json.RawMessage(failure.Raw)}, nil
}

// codeOf is the contract's word for an end.
func codeOf(s *schemas.Settled) schemas.Code {
	if s.Code == schemas.AgentUnavailable {
		return s.Code
	}
	return schemas.TaskFailed
}

func messageOf(s *schemas.Settled) string {
	switch {
	case s.Message != "":
		return s.Message
	case s.Outcome == schemas.OutcomeCanceled:
		return "the run was canceled"
	case s.Outcome == schemas.OutcomeExpired:
		return "the run's deadline passed"
	case s.Outcome == schemas.OutcomeDenied:
		return "policy refuses the run"
	case s.Code == schemas.AgentUnavailable:
		return "the agent cannot be reached"
	default:
		return "the run could not be completed"
	}
}
