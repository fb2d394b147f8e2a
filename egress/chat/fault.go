package chat

import (
	"cmp"
	"encoding/json"
	"net/http"
	"time"

	"weir/internal/problem"
	"weir/schemas"
)

// RefusalError is the error of a completion that ended without an answer, or in the middle of
// one.
type RefusalError struct {
	problem problem.Error
	// partial is what had come of an answer.
	partial json.RawMessage
	model   string
}

func (r *RefusalError) Error() string { return r.problem.Error() }

// said is the error in the form of the protocol. It has no request id, so that repeats get the same
// bytes.
func (r *RefusalError) said() schemas.ChatRefused { return problem.Chat(&r.problem, "") }

// Read tells how a completion ended: the whole answer, or why there is none. A document
// that cannot be read, or was dropped, is an end too.
func Read(s *schemas.Settled, doc json.RawMessage) (whole json.RawMessage, refusal *RefusalError) {
	var res schemas.ChatResult
	if len(doc) > 0 && json.Unmarshal(doc, &res) != nil {
		res = schemas.ChatResult{}
	}
	if s.Outcome == schemas.OutcomeSucceeded {
		if object(res.Completion) && !res.Partial {
			return res.Completion, nil
		}
		return nil, refused(schemas.Poison, schemas.ChatError{
			Status: http.StatusInternalServerError, Message: "the completion was made, and cannot be read any more",
		})
	}
	e := schemas.ChatError{}
	if res.Error != nil {
		e = *res.Error
	}
	code := cmp.Or(s.Code, s.Outcome.Code())
	if e.Status < http.StatusBadRequest || e.Status > 599 {
		e.Status = problem.ChatStatus(code)
	}
	e.Message = cmp.Or(e.Message, s.Message, messageOf(s.Outcome, code))
	refusal = refused(code, e)
	refusal.model = res.Model
	if object(res.Completion) {
		refusal.partial = res.Completion
	}
	return nil, refusal
}

func refused(code schemas.Code, e schemas.ChatError) *RefusalError {
	return &RefusalError{problem: problem.Error{
		Problem:    schemas.Problem{Code: code, Status: e.Status, Detail: e.Message},
		RetryAfter: time.Duration(e.RetryAfterMS) * time.Millisecond,
		Details:    e.Metadata, Limits: e.Limits,
	}}
}

func messageOf(o schemas.Outcome, code schemas.Code) string {
	switch {
	case o == schemas.OutcomeCanceled:
		return "the completion was canceled"
	case o == schemas.OutcomeExpired:
		return "the completion's deadline passed"
	case code == schemas.BudgetExhausted:
		return "a budget does not bear the completion"
	case code == schemas.ModelNotFound:
		return "there is no such model"
	case code == schemas.RateLimited:
		return "too many requests at a time; wait and try again"
	case o == schemas.OutcomeDenied:
		return "policy refuses the completion"
	case code == schemas.Interrupted, o == schemas.OutcomeUnknown:
		return "the completion was interrupted"
	default:
		return "the completion could not be made"
	}
}

// object reports whether raw, which is JSON, is an object.
func object(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }
