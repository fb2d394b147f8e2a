// Package executor renders how an action of kind http ended in the words of
// the HTTP executor's callers.
package executor

import (
	"cmp"
	"encoding/json"
	"net/http"

	jsonv1 "github.com/go-json-experiment/json/v1" // encoding/json in a third of the time

	"weir/internal/ledger"
	"weir/schemas"
)

// success is the answer to a call that came back as it should.
type success struct {
	answer
	Postcondition json.RawMessage `json:"postcondition,omitempty"`
	// Reconciled: the call's own answer was lost, and this is the answer of the probe.
	Reconciled bool     `json:"reconciled,omitempty"`
	Warnings   []string `json:"warnings,omitempty"`
}

type failure struct {
	Error any `json:"error"`
}

// common is what every variant has.
type common struct {
	Variant   string       `json:"variant"`
	Message   string       `json:"message"`
	Code      schemas.Code `json:"code,omitempty"`
	Retryable bool         `json:"retryable"`
}

type denied struct {
	common
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// answer is what came back of the target.
type answer struct {
	Status  int              `json:"status"`
	Headers []schemas.Header `json:"headers"`
	Body    json.RawMessage  `json:"body"`
	// BodyEncoding is base64 for bytes that are no text.
	BodyEncoding string `json:"body_encoding,omitempty"`
}

// rejected is a call whose answer, if one came, was not what was wanted.
type rejected struct {
	common
	*answer // the last that came; nil: none did
}

type httpFailure struct {
	common
	answer
}

type exhausted struct {
	common
	Attempts  int                   `json:"attempts"`
	History   []schemas.RetryRecord `json:"history"`
	LastError string                `json:"last_error"`
	*answer                         // the last that came; nil: none did
}

type failedPostcondition struct {
	common
	Report json.RawMessage `json:"report"`
	*answer
}

type unknown struct {
	common
	Attempts   int    `json:"attempts"`
	ActionURL  string `json:"action_url"`
	ResolveURL string `json:"resolve_url"`
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
	status, fault := failed(ref, s, res)
	body, err := ledger.Encode(fault)
	return status, body, err
}

// Result is the body that Render gives, for the places that show an end beside
// other things; nil where the document cannot be read.
func Result(ref schemas.Ref, s *schemas.Settled, doc json.RawMessage) json.RawMessage {
	_, body, err := Render(ref, s, doc)
	if err != nil {
		return nil
	}
	return body
}

func answered(res schemas.HTTPResult) answer {
	came := answer{Headers: []schemas.Header{}}
	if a := res.Answer; a != nil {
		came.Status, came.Body = a.Status, a.Body
		if a.Base64 {
			came.BodyEncoding = "base64"
		}
		if a.Headers != nil {
			came.Headers = a.Headers
		}
	}
	return came
}

func failed(ref schemas.Ref, s *schemas.Settled, res schemas.HTTPResult) (int, failure) {
	variant := variantOf(s, res)
	c := common{Variant: variant, Message: messageOf(variant, s, res), Code: s.Code, Retryable: retryable(variant, s)}
	var e any = c
	var last *answer
	if res.Answer != nil {
		came := answered(res)
		last = &came
	}
	switch variant {
	case schemas.VariantDisallowedHost:
		d := denied{common: c}
		if res.Decision != nil {
			d.Rule, d.Reason = res.Decision.Entry, res.Decision.Reason
		}
		e = d
	case schemas.VariantHTTPFailure:
		e = httpFailure{common: c, answer: answered(res)}
	case schemas.VariantRetriesExhausted:
		h := res.History
		if h == nil {
			h = []schemas.RetryRecord{}
		}
		e = exhausted{common: c, Attempts: max(len(h), s.Attempts), History: h, LastError: res.LastError, answer: last}
	case schemas.VariantSchemaValidationFailed, schemas.VariantRequest:
		e = rejected{common: c, answer: last}
	case schemas.VariantPostconditionFailed:
		e = failedPostcondition{common: c, Report: res.Report, answer: last}
	case schemas.VariantOutcomeUnknown:
		url := "/v1/actions/" + ref.ID
		e = unknown{common: c, Attempts: s.Attempts, ActionURL: url, ResolveURL: url + "/resolve"}
	}
	return Status(variant, s.Code), failure{Error: e}
}

// Refusal is how a call without an answer ended, for surfaces with a form of their own.
type Refusal struct {
	Status    int
	Code      schemas.Code
	Message   string
	Retryable bool
}

// Refused is the refusal of an end and its result.
func Refused(s *schemas.Settled, res schemas.HTTPResult) Refusal {
	variant := variantOf(s, res)
	return Refusal{
		Status: Status(variant, s.Code), Code: cmp.Or(s.Code, s.Outcome.Code()),
		Message: messageOf(variant, s, res), Retryable: retryable(variant, s),
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

func messageOf(variant string, s *schemas.Settled, res schemas.HTTPResult) string {
	switch {
	case variant == schemas.VariantOutcomeUnknown:
		return schemas.UnknownText
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
