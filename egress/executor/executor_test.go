package executor_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/egress/executor"
	"weir/internal/ledger"
	"weir/internal/weirtest/fixture"
	"weir/schemas"
)

var ref = schemas.Ref{Tenant: "acme", Kind: schemas.KindHTTP, ID: "act-1"}

func answer(status int, body string) *schemas.Answer {
	return &schemas.Answer{
		Status: status, Hash: "never shown", Snippet: "never shown",
		Headers: []schemas.Header{{Name: "content-type", Value: "text/html"}, {Name: "set-cookie", Value: "REDACTED"}},
		Body:    json.RawMessage(body),
	}
}

type ending struct {
	settled schemas.Settled
	result  *schemas.HTTPResult
	doc     string
}

func endings() map[string]ending {
	fail := func(code schemas.Code, attempts int) schemas.Settled {
		return schemas.Settled{Outcome: schemas.OutcomeFailed, Code: code, Attempts: attempts}
	}
	report := json.RawMessage(`{"passed":true,"assertions":[{"kind":"http_status","status":"passed","detail":"200"}]}`)
	return map[string]ending{
		"succeeded": {
			schemas.Settled{Outcome: schemas.OutcomeSucceeded, Attempts: 1},
			nil, `{"answer":{"status":200,"headers":[{"name":"a","value":"<b>&"}],"body":{"n":1.10000000000000000001,"z":[],"a":"<&>"},"hash":"h"},"report":` + string(report) + `}`,
		},
		"bytes": {
			schemas.Settled{Outcome: schemas.OutcomeSucceeded, Attempts: 1},
			&schemas.HTTPResult{Answer: &schemas.Answer{Status: 200, Body: json.RawMessage(`"AP8="`), Base64: true}}, "",
		},
		"http_failure_bytes": {
			fail(schemas.HTTPFailure, 1),
			&schemas.HTTPResult{Variant: schemas.VariantHTTPFailure, Message: "the target answered with status 404 Not Found", Answer: &schemas.Answer{Status: 404, Body: json.RawMessage(`"AP8="`), Base64: true}}, "",
		},
		"empty_body": {schemas.Settled{Outcome: schemas.OutcomeSucceeded, Attempts: 1}, &schemas.HTTPResult{Answer: &schemas.Answer{Status: 204}}, ""},
		"denied": {
			schemas.Settled{Outcome: schemas.OutcomeDenied, Code: schemas.DenyHost},
			&schemas.HTTPResult{
				Variant: schemas.VariantDisallowedHost, Message: "disallowed host 'h'",
				Decision: &schemas.Decision{Code: schemas.DenyHost, Entry: "github", Reason: "the host is not the entry's", Version: "v"},
			}, "",
		},
		"denied_without_result": {schemas.Settled{Outcome: schemas.OutcomeDenied, Code: schemas.DenyKilled}, nil, ""},
		"http_failure": {
			fail(schemas.HTTPFailure, 1),
			&schemas.HTTPResult{Variant: schemas.VariantHTTPFailure, Message: "the target answered with status 404 Not Found", Answer: answer(404, `"<p>no</p>"`)}, "",
		},
		"request_connect": {fail(schemas.UpstreamConnect, 1), &schemas.HTTPResult{Variant: schemas.VariantRequest, Message: "the target could not be reached"}, ""},
		"request_timeout": {fail(schemas.UpstreamTimeout, 1), &schemas.HTTPResult{Variant: schemas.VariantRequest, Message: "the target did not answer in time"}, ""},
		"retries_exhausted": {
			fail(schemas.RetriesExhausted, 3),
			&schemas.HTTPResult{
				Variant: schemas.VariantRetriesExhausted, Message: "every attempt failed, 3 in all; the last: timeout", LastError: "timeout",
				History: []schemas.RetryRecord{
					{Attempt: 1, Outcome: json.RawMessage(`{"status":503}`)},
					{Attempt: 2, Outcome: json.RawMessage(`"connect"`)},
					{Attempt: 3, Outcome: json.RawMessage(`"timeout"`)},
				},
			}, "",
		},
		"retries_exhausted_answered": {
			fail(schemas.RetriesExhausted, 3),
			&schemas.HTTPResult{
				Variant: schemas.VariantRetriesExhausted, Message: "every attempt failed, 3 in all; the last: the target answered with status 503 Service Unavailable",
				LastError: "the target answered with status 503 Service Unavailable", Answer: answer(503, `{"busy":true}`), History: []schemas.RetryRecord{{Attempt: 1, Outcome: json.RawMessage(`{"status":503}`)}},
			}, "",
		},
		"schema": {fail(schemas.ResponseSchemaInvalid, 1), &schemas.HTTPResult{Variant: schemas.VariantSchemaValidationFailed, Message: "a; b", Answer: answer(200, `[7]`)}, ""},
		"postcondition": {
			fail(schemas.PostconditionFailed, 1),
			&schemas.HTTPResult{Variant: schemas.VariantPostconditionFailed, Message: "a postcondition failed", Report: json.RawMessage(`{"passed":false,"assertions":[]}`), Answer: answer(201, `[]`)}, "",
		},
		"outcome_unknown": {schemas.Settled{Outcome: schemas.OutcomeUnknown, Code: schemas.OutcomeUnknownCode, Message: "interrupted", Attempts: 1}, nil, ""},
		"canceled":        {schemas.Settled{Outcome: schemas.OutcomeCanceled, Code: schemas.Canceled}, nil, ""},
		"expired":         {schemas.Settled{Outcome: schemas.OutcomeExpired, Code: schemas.DeadlineExceeded}, nil, ""},
		"expired_sent":    {schemas.Settled{Outcome: schemas.OutcomeExpired, Code: schemas.DeadlineExceeded, Attempts: 2}, nil, ""},
		"poison":          {fail(schemas.Poison, 0), nil, ""},
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, e := range endings() {
		doc := json.RawMessage(e.doc)
		if e.result != nil {
			var err error
			doc, err = ledger.Encode(e.result)
			require.NoError(t, err, name)
		}
		status, body, err := executor.Render(ref, &e.settled, doc)
		require.NoError(t, err, name)
		require.True(t, json.Valid(body), name)
		require.NotContains(t, string(body), "never shown", name)
		got := fmt.Appendf(nil, "%d %s\n%s\n", status, http.StatusText(status), body)
		fixture.Golden(t, name, got)
	}
}

func TestADocumentThatIsNoneIsAnError(t *testing.T) {
	t.Parallel()
	_, _, err := executor.Render(ref, &schemas.Settled{Outcome: schemas.OutcomeSucceeded}, json.RawMessage(`[]`))
	require.Error(t, err)
}
