// Package executor renders how an action of kind http ended in the words of
// the HTTP executor's callers.
package executor

import (
	"cmp"
	"encoding/json"
	"net/http"

	jsonv1 "github.com/go-json-experiment/json/v1" // encoding/json in a third of the time

	"weir/egress"
	"weir/egress/stream"
	"weir/internal/ledger"
	"weir/internal/redact"
	"weir/schemas"
)

// Surface answers for kind http.
func Surface() egress.Surface {
	return egress.Surface{Name: "executor", Views: []egress.View{{
		Kind: schemas.KindHTTP, Render: Render, Payload: egress.Shown(Hide),
	}}}
}

// Hide hides the values of a call's headers that carry credentials.
func Hide(r *redact.Redactor, call *schemas.HTTPCall) { call.Headers = r.Headers(call.Headers) }

// success is the answer to a call that came back as it should.
type success struct {
	answer
	Postcondition json.RawMessage `json:"postcondition,omitempty"`
	// Reconciled: the call's own answer was lost, and this is the answer of the probe.
	Reconciled bool     `json:"reconciled,omitempty"`
	Warnings   []string `json:"warnings,omitempty"`
}

// answer is what came back of the target.
type answer struct {
	Status  int              `json:"status"`
	Headers []schemas.Header `json:"headers"`
	Body    json.RawMessage  `json:"body"`
	// BodyEncoding is base64 for bytes that are no text.
	BodyEncoding string `json:"body_encoding,omitempty"`
	// BodySize is set for a body that is in the deltas.
	BodySize int64 `json:"body_size,omitempty"`
}

type failure struct {
	Error fault `json:"error"`
}

// fault is the error of a call. The members after retryable belong to its variant.
type fault struct {
	Variant   string       `json:"variant"`
	Message   string       `json:"message"`
	Code      schemas.Code `json:"code,omitempty"`
	Retryable bool         `json:"retryable"`

	Rule      string                 `json:"rule,omitempty"`
	Reason    string                 `json:"reason,omitempty"`
	Attempts  *int                   `json:"attempts,omitempty"`
	History   *[]schemas.RetryRecord `json:"history,omitempty"`
	LastError *string                `json:"last_error,omitempty"`
	Report    json.RawMessage        `json:"report,omitempty"`
	*answer                          // the last that came; nil: none did

	ActionURL  string              `json:"action_url,omitempty"`
	ResolveURL string              `json:"resolve_url,omitempty"`
	Resolution *schemas.Resolution `json:"resolution,omitempty"`
}

// Render returns the status and the body for an action's end. doc is the
// result document, which may be empty. The same end always gives the same bytes.
func Render(ref schemas.Ref, s *schemas.Settled, doc json.RawMessage) (int, []byte, error) {
	var res schemas.HTTPResult
	if len(doc) > 0 {
		if err := jsonv1.Unmarshal(doc, &res); err != nil {
			return 0, nil, err
		}
	}
	if s.Outcome == schemas.OutcomeSucceeded {
		body, err := ledger.Encode(success{answer: answered(res), Postcondition: res.Report, Reconciled: res.Reconciled, Warnings: res.Warnings})
		return http.StatusOK, body, err
	}
	e := failed(ref, s, res)
	body, err := ledger.Encode(failure{e})
	return Status(e.Variant, s.Code), body, err
}

func answered(res schemas.HTTPResult) answer {
	came := answer{Headers: []schemas.Header{}}
	if a := res.Answer; a != nil {
		came.Status, came.Body, came.BodySize = a.Status, a.Body, a.Size
		if a.Base64 {
			came.BodyEncoding = "base64"
		}
		if a.Headers != nil {
			came.Headers = a.Headers
		}
	}
	return came
}

func failed(ref schemas.Ref, s *schemas.Settled, res schemas.HTTPResult) fault {
	variant := variantOf(s, res)
	e := fault{Variant: variant, Message: messageOf(variant, ref, s, res), Code: s.Code, Retryable: retryable(variant, s)}
	last := func() {
		if res.Answer != nil {
			came := answered(res)
			e.answer = &came
		}
	}
	switch variant {
	case schemas.VariantDisallowedHost:
		if res.Decision != nil {
			e.Rule, e.Reason = res.Decision.Entry, res.Decision.Reason
		}
	case schemas.VariantHTTPFailure:
		came := answered(res)
		e.answer = &came
	case schemas.VariantRetriesExhausted:
		history := append([]schemas.RetryRecord{}, res.History...)
		attempts := max(len(history), s.Attempts)
		e.Attempts, e.History, e.LastError = &attempts, &history, &res.LastError
		last()
	case schemas.VariantSchemaValidationFailed, schemas.VariantRequest:
		last()
	case schemas.VariantPostconditionFailed:
		e.Report = res.Report
		last()
	case schemas.VariantOutcomeUnknown:
		e.Attempts, e.Resolution = &s.Attempts, s.Resolution
		e.ActionURL, e.ResolveURL = stream.ActionURL(ref.ID), stream.ResolveURL(ref.ID)
	}
	return e
}

// Refused is the problem of a call that ended without an answer, for surfaces with a form of their own.
func Refused(ref schemas.Ref, s *schemas.Settled, res schemas.HTTPResult) schemas.Problem {
	variant := variantOf(s, res)
	return schemas.Problem{
		Status: Status(variant, s.Code), Code: cmp.Or(s.Code, s.Outcome.Code()),
		Detail: messageOf(variant, ref, s, res), Retryable: retryable(variant, s),
	}
}

// variantOf falls back to the outcome where an action ended before a result
// could be made.
func variantOf(s *schemas.Settled, res schemas.HTTPResult) string {
	switch s.Outcome {
	case schemas.OutcomeUnknown:
		return schemas.VariantOutcomeUnknown
	case schemas.OutcomeCanceled:
		return schemas.VariantCanceled
	case schemas.OutcomeExpired:
		return schemas.VariantExpired
	case schemas.OutcomeSucceeded, schemas.OutcomeFailed, schemas.OutcomeDenied:
	}
	switch {
	case res.Variant != "":
		return res.Variant
	case s.Outcome == schemas.OutcomeDenied:
		return schemas.VariantDisallowedHost
	default:
		return schemas.VariantRequest
	}
}

func messageOf(variant string, ref schemas.Ref, s *schemas.Settled, res schemas.HTTPResult) string {
	switch {
	case variant == schemas.VariantOutcomeUnknown:
		return s.UnknownText(ref.ID)
	case res.Message != "":
		return res.Message
	case s.Message != "":
		return s.Message
	case variant == schemas.VariantCanceled:
		return "the action was canceled"
	case variant == schemas.VariantExpired:
		return "the action's deadline passed"
	case variant == schemas.VariantDisallowedHost:
		return "policy refuses the request"
	default:
		return "the request could not be completed"
	}
}
