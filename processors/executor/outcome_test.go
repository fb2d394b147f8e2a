package executor

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/processors/call"
	"weir/schemas"
)

func answer(status int, body string) *schemas.Answer {
	return &schemas.Answer{Status: status, Body: json.RawMessage(body), JSON: json.Valid([]byte(body)), Hash: "h"}
}

func tries(results ...schemas.Attempted) []ledger.Attempt {
	var all []ledger.Attempt
	for i := range results {
		results[i].Number = i + 1
		all = append(all, ledger.Attempt{Attempt: schemas.Attempt{Number: i + 1, Decision: schemas.Decision{Allowed: true, Entry: "up"}}, Result: &results[i]})
	}
	return all
}

func result(r call.Result, results ...schemas.Attempted) call.Result {
	r.Tries = tries(results...)
	if len(r.Tries) > 0 {
		r.Last = &r.Tries[len(r.Tries)-1]
	}
	return r
}

// TestOutcome holds every end of a call against the executor's words for it.
func TestOutcome(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type":"object","required":["ok"],"properties":{"ok":{"type":"boolean"}}}`)
	ok := schemas.Attempted{Status: 200, Sent: true}
	unfit := func(mode string) schemas.Attempted {
		return schemas.Attempted{Status: 200, Sent: true, Schema: &schemas.SchemaFinding{Mode: mode, Code: schemas.ResponseSchemaInvalid, Violations: []string{"/id: is missing"}}}
	}
	denial := schemas.Decision{Code: schemas.DenyHost, Reason: "no entry covers this host", Version: "v"}
	tests := map[string]struct {
		call    schemas.HTTPCall
		result  call.Result
		answer  *schemas.Answer
		outcome schemas.Outcome
		code    schemas.Code
		variant string
		message string

		warnings   []string
		reconciled bool
	}{
		"a success":           {result: result(call.Result{Answered: true}, ok), answer: answer(200, `{"ok":true}`), outcome: schemas.OutcomeSucceeded},
		"a 404":               {result: result(call.Result{Answered: true}, ok), answer: answer(404, `{}`), outcome: schemas.OutcomeFailed, code: schemas.HTTPFailure, variant: "HttpFailure", message: "the target answered with status 404 Not Found"},
		"a redirect":          {result: result(call.Result{Answered: true}, ok), answer: answer(302, `{}`), outcome: schemas.OutcomeFailed, code: schemas.DenyRedirect, variant: "HttpFailure", message: "the target answered with status 302 Found; the entry does not allow this redirect"},
		"the schema holds":    {call: schemas.HTTPCall{ResponseSchema: schema}, result: result(call.Result{Answered: true}, ok), answer: answer(200, `{"ok":true}`), outcome: schemas.OutcomeSucceeded},
		"the schema does not": {call: schemas.HTTPCall{ResponseSchema: schema}, result: result(call.Result{Answered: true}, ok), answer: answer(200, `{"ok":1}`), outcome: schemas.OutcomeFailed, code: schemas.ResponseSchemaInvalid, variant: "SchemaValidationFailed"},
		"not JSON at all":     {call: schemas.HTTPCall{ResponseSchema: schema}, result: result(call.Result{Answered: true}, ok), answer: &schemas.Answer{Status: 200, Body: []byte(`"{bad"`), Hash: "h"}, outcome: schemas.OutcomeFailed, code: schemas.ResponseNotJSON, variant: "SchemaValidationFailed", message: "the response body is not JSON"},
		"an entry's schema":   {result: result(call.Result{Answered: true}, unfit("strict")), answer: answer(200, `{}`), outcome: schemas.OutcomeFailed, code: schemas.ResponseSchemaInvalid, variant: "SchemaValidationFailed", message: "/id: is missing"},
		"only a warning":      {result: result(call.Result{Answered: true}, unfit("warn")), answer: answer(200, `{}`), outcome: schemas.OutcomeSucceeded, warnings: []string{"/id: is missing"}},
		"reconciled":          {call: schemas.HTTPCall{ResponseSchema: schema, Postcondition: []byte(`{"type":"http_status","equals":201}`)}, result: result(call.Result{Answered: true, Reconciled: true}, ok), answer: answer(200, `[]`), outcome: schemas.OutcomeSucceeded, reconciled: true},
		"a path in bytes":     {call: schemas.HTTPCall{Postcondition: []byte(`{"type":"json_path","path":"$","equals":"AP8="}`)}, result: result(call.Result{Answered: true}, ok), answer: &schemas.Answer{Status: 200, Body: []byte(`"AP8="`), Base64: true, Hash: "h"}, outcome: schemas.OutcomeFailed, code: schemas.PostconditionFailed, variant: "PostconditionFailed"},
		"a name twice":        {call: schemas.HTTPCall{ResponseSchema: schema}, result: result(call.Result{Answered: true}, ok), answer: answer(200, `{"ok":1,"ok":true}`), outcome: schemas.OutcomeFailed, code: schemas.ResponseSchemaInvalid, variant: "SchemaValidationFailed", message: "/ok: appears twice in its object; readers differ on which one counts"},
		"postcondition holds": {call: schemas.HTTPCall{Postcondition: []byte(`{"type":"http_status","equals":200}`)}, result: result(call.Result{Answered: true}, ok), answer: answer(200, `{}`), outcome: schemas.OutcomeSucceeded},
		"postcondition fails": {call: schemas.HTTPCall{Postcondition: []byte(`{"type":"http_status","equals":201}`)}, result: result(call.Result{Answered: true}, ok), answer: answer(200, `{}`), outcome: schemas.OutcomeFailed, code: schemas.PostconditionFailed, variant: "PostconditionFailed"},
		"denied":              {call: schemas.HTTPCall{URL: "http://u@H.Example:8080/x"}, result: call.Result{Denied: true, Decision: denial}, outcome: schemas.OutcomeDenied, code: schemas.DenyHost, variant: "DisallowedHost", message: "disallowed host 'h.example'"},
		"denied after a send": {call: schemas.HTTPCall{URL: "http://[::1]:1/"}, result: result(call.Result{Denied: true, Decision: denial}, schemas.Attempted{Status: 503, Sent: true}), outcome: schemas.OutcomeFailed, code: schemas.DenyHost, variant: "DisallowedHost", message: "disallowed host '::1'"},
		"a refused method":    {call: schemas.HTTPCall{URL: "http://h/", Method: "PUT"}, result: call.Result{Denied: true, Decision: schemas.Decision{Code: schemas.DenyMethod, Reason: "because"}}, outcome: schemas.OutcomeDenied, code: schemas.DenyMethod, variant: "DisallowedHost", message: "disallowed method 'PUT': because"},
		"a refused header":    {result: call.Result{Denied: true, Decision: schemas.Decision{Code: schemas.DenyHeader, Reason: "because"}}, outcome: schemas.OutcomeDenied, code: schemas.DenyHeader, variant: "DisallowedHost", message: "disallowed header: because"},
		"a rule's refusal":    {result: call.Result{Denied: true, Decision: schemas.Decision{Code: schemas.DenyRule, Reason: "because"}}, outcome: schemas.OutcomeDenied, code: schemas.DenyRule, variant: "DisallowedHost", message: "disallowed request: because"},
		"a refused address":   {call: schemas.HTTPCall{URL: "http://h/"}, result: result(call.Result{Failed: true}, schemas.Attempted{Code: schemas.DenyAddress}), outcome: schemas.OutcomeDenied, code: schemas.DenyAddress, variant: "DisallowedHost", message: "disallowed host 'h'"},
		"a refused hop":       {result: result(call.Result{Failed: true}, schemas.Attempted{Status: 302, Sent: true}, schemas.Attempted{Code: schemas.DenyRedirect, Status: 302}), answer: answer(302, `{}`), outcome: schemas.OutcomeFailed, code: schemas.DenyRedirect, variant: "HttpFailure"},
		"the budget is spent": {result: result(call.Result{Answered: true, Exhausted: true}, schemas.Attempted{Status: 503}, schemas.Attempted{Code: schemas.UpstreamTimeout}, schemas.Attempted{Status: 503}), answer: answer(503, `{}`), outcome: schemas.OutcomeFailed, code: schemas.RetriesExhausted, variant: "RetriesExhausted", message: "every attempt failed, 3 in all; the last: the target answered with status 503 Service Unavailable"},
		"too large":           {result: result(call.Result{Failed: true}, schemas.Attempted{Code: schemas.UpstreamTooLarge, Sent: true, Status: 200}), outcome: schemas.OutcomeFailed, code: schemas.UpstreamTooLarge, variant: "Request"},
		"no secret":           {result: result(call.Result{Failed: true}, schemas.Attempted{Code: schemas.SecretUnavailable, Secret: "TOKEN"}), outcome: schemas.OutcomeFailed, code: schemas.SecretUnavailable, variant: "Request", message: `the secret TOKEN that the entry "up" adds could not be read, and nothing was sent; ask the operator to provide it`},
		"nobody knows":        {result: result(call.Result{Unknown: true}, schemas.Attempted{Code: schemas.UpstreamReset, Sent: true}), outcome: schemas.OutcomeUnknown, code: schemas.OutcomeUnknownCode, variant: "OutcomeUnknown", message: schemas.UnknownText},
		"canceled":            {result: call.Result{Canceled: true}, outcome: schemas.OutcomeCanceled, code: schemas.Canceled, variant: "Canceled"},
		"expired":             {result: call.Result{Expired: true}, outcome: schemas.OutcomeExpired, code: schemas.DeadlineExceeded, variant: "Expired"},
	}
	e := New(nil, nil, call.Answers{})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := e.outcome(tt.call, tt.result, tt.answer)
			assert.Equal(t, tt.outcome, v.Outcome)
			assert.Equal(t, tt.code, v.Code)
			doc, ok := v.Result.(schemas.HTTPResult)
			require.True(t, ok)
			assert.Equal(t, tt.variant, doc.Variant)
			assert.Equal(t, tt.warnings, doc.Warnings)
			assert.Equal(t, tt.reconciled, doc.Reconciled)
			if tt.message != "" {
				assert.Equal(t, tt.message, doc.Message)
			}
			if tt.variant == "RetriesExhausted" {
				assert.Len(t, doc.History, len(tt.result.Tries))
			}
		})
	}
}

// TestTheLastAnswerIsKept: retries may end with an attempt that none came of.
func TestTheLastAnswerIsKept(t *testing.T) {
	t.Parallel()
	one, two := answer(503, `1`), answer(500, `2`)
	busy, broke, lost := schemas.Attempted{Status: 503, Answer: one}, schemas.Attempted{Status: 500, Answer: two}, schemas.Attempted{Code: schemas.UpstreamTimeout}
	for _, tt := range []struct {
		result call.Result
		want   *schemas.Answer
	}{
		{result(call.Result{Answered: true, Exhausted: true}, lost, busy, broke), two},
		{result(call.Result{Failed: true, Exhausted: true}, busy, broke, lost), two},
		{result(call.Result{Failed: true, Exhausted: true}, busy, lost, lost), one},
		{result(call.Result{Failed: true, Exhausted: true}, lost), nil},
		{result(call.Result{Failed: true}, busy, lost), nil},
	} {
		require.Same(t, tt.want, answeredAttempt(tt.result).Result.Answer)
	}
	require.Nil(t, answeredAttempt(call.Result{Denied: true}))
}

func TestHistoryCountsHopsOnce(t *testing.T) {
	t.Parallel()
	all := tries(schemas.Attempted{Status: 302}, schemas.Attempted{Status: 503})
	all[1].Number, all[1].Hop = 1, 1
	h := history(all)
	require.Len(t, h, 1)
	assert.JSONEq(t, `{"status":503}`, string(h[0].Outcome))
}
