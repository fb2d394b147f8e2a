package rules

import (
	"cmp"
	"encoding/json"
	"net/http"

	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

// Request is what an answer repeats of its request.
type Request struct{ RequestID, Operation string }

// Answer is the envelope of something that went well.
func Answer(asked Request, data json.RawMessage) ([]byte, error) {
	return ledger.Encode(schemas.AgentResponse{OK: true, RequestID: asked.RequestID, Operation: asked.Operation, Data: data})
}

// Render returns the status and the body for the end of a write. doc is the result
// document, whose own words go before those of asked; it may be empty. The same end
// always gives the same bytes.
func Render(asked Request, s *schemas.Settled, doc json.RawMessage) (int, []byte, error) {
	var res schemas.RuleResult
	if len(doc) > 0 {
		if err := json.Unmarshal(doc, &res); err != nil {
			return 0, nil, err
		}
		asked = Request{RequestID: cmp.Or(res.RequestID, asked.RequestID), Operation: cmp.Or(res.Operation, asked.Operation)}
	}
	if s.Outcome == schemas.OutcomeSucceeded {
		data, err := ledger.Encode(one{Rule: res.Rule, RulesEtag: res.RulesEtag})
		if err != nil {
			return 0, nil, err
		}
		body, err := Answer(asked, data)
		return http.StatusOK, body, err
	}
	e := failed(s, res)
	body, err := ledger.Encode(schemas.AgentResponse{RequestID: asked.RequestID, Operation: asked.Operation, Error: e})
	return statusOf(s, e), body, err
}

// Result is the body that Render gives, for the places that show an end beside
// other things; nil where the document cannot be read.
func Result(s *schemas.Settled, doc json.RawMessage) json.RawMessage {
	_, body, err := Render(Request{}, s, doc)
	if err != nil {
		return nil
	}
	return body
}

// failed is the error of a write that was not made: the stored one if there is one.
func failed(s *schemas.Settled, res schemas.RuleResult) *schemas.AgentError {
	if res.Error != nil {
		return res.Error
	}
	code, detail := problem.AgentCode(codeOf(s))
	return &schemas.AgentError{Code: code, Message: messageOf(s), Detail: detail}
}

// codeOf is one of Weir's words for an end.
func codeOf(s *schemas.Settled) schemas.Code {
	if code := s.Outcome.Code(); code != schemas.Internal {
		return code
	}
	return cmp.Or(s.Code, schemas.Internal)
}

// messageOf says what to do next. Unlike a call, a write of the rules is safe to
// send again: its etag holds for one set alone.
func messageOf(s *schemas.Settled) string {
	switch s.Outcome {
	case schemas.OutcomeUnknown:
		return "it is unknown whether the write was made: read the rules, and send it under a new request_id if it is not there"
	case schemas.OutcomeCanceled:
		return "the write was canceled: read the rules, and send it under a new request_id if it is still wanted"
	case schemas.OutcomeExpired:
		return "the time for the write is over: read the rules, and send it under a new request_id if it is not there"
	case schemas.OutcomeSucceeded, schemas.OutcomeFailed, schemas.OutcomeDenied:
	}
	if s.Message != "" {
		return s.Message
	}
	return "the write could not be made"
}

// statusOf is the HTTP status of an end that is no success.
func statusOf(s *schemas.Settled, e *schemas.AgentError) int {
	switch s.Outcome {
	case schemas.OutcomeCanceled, schemas.OutcomeExpired, schemas.OutcomeUnknown:
		return problem.Status(codeOf(s))
	case schemas.OutcomeSucceeded, schemas.OutcomeFailed, schemas.OutcomeDenied:
	}
	return problem.Status(e.Code)
}
