package problem_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/problem"
	"weir/schemas"
)

func TestWriteChat(t *testing.T) {
	t.Parallel()
	own := func(status int, code schemas.Code, details string) error {
		return &problem.Error{
			Problem: schemas.Problem{Code: code, Status: status, Detail: "<no>"}, Details: json.RawMessage(details), RetryAfter: 1500 * time.Millisecond,
		}
	}
	for name, tc := range map[string]struct {
		err      error
		status   int
		message  string
		metadata string
		after    string
	}{
		"ours":          {errors.New("dial 10.1.2.3: secret"), 500, "something went wrong on our side", `{"code":"INTERNAL","request_id":"r-1"}`, ""},
		"invalid":       {fault.New(schemas.InvalidRequest, "no"), 400, "no", `{"code":"INVALID_REQUEST","request_id":"r-1"}`, ""},
		"own status":    {own(422, schemas.ValidationError, ""), 422, "<no>", `{"code":"VALIDATION_ERROR","request_id":"r-1"}`, "2"},
		"key":           {fault.New(schemas.IdempotencyMismatch, "no"), 422, "no", `{"code":"IDEMPOTENCY_MISMATCH","request_id":"r-1"}`, ""},
		"gone":          {&problem.Error{Problem: schemas.Problem{Code: schemas.StreamGone, EarliestID: "7"}}, 410, "Gone", `{"status":410,"code":"STREAM_GONE","request_id":"r-1","earliest_id":"7"}`, ""},
		"denied":        {&problem.Error{Problem: schemas.Problem{Code: schemas.DenyHost, Rule: "x", Reason: "y"}}, 403, "Forbidden", `{"status":403,"code":"DENY_HOST","request_id":"r-1","rule":"x","reason":"y"}`, ""},
		"details":       {own(429, schemas.RateLimited, `{"limit_source":"b","code":"ANOTHER","raw":{"n":1.50}}`), 429, "<no>", `{"code":"RATE_LIMITED","limit_source":"b","raw":{"n":1.50},"request_id":"r-1"}`, "2"},
		"details: list": {own(0, schemas.Forbidden, `[1]`), 403, "<no>", `{"code":"FORBIDDEN","request_id":"r-1"}`, "2"},
		"details: bad":  {own(0, schemas.Forbidden, `{"a":`), 403, "<no>", `{"code":"FORBIDDEN","request_id":"r-1"}`, "2"},
		"unavailable":   {fault.ErrUnavailable, 503, "the log did not answer; try again", `{"code":"UNAVAILABLE","request_id":"r-1"}`, "1"},
	} {
		w := answered(t, tc.status, "application/json", tc.after, func(w http.ResponseWriter, r *http.Request) {
			problem.WriteChat(w, r, schemas.DialectChat, tc.err)
		}, name)
		require.NotContains(t, w.Body.String(), `\u003c`, "texts are not escaped for HTML: "+name)
		var body schemas.ChatRefusal
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body), name)
		require.Equal(t, tc.message, body.Error.Message, name)
		metadata := strings.Replace(tc.metadata, "{", fmt.Sprintf(`{"status":%d,`, tc.status), 1)
		require.JSONEq(t, metadata, string(body.Error.Metadata), name)
		require.Equal(t, body.Error, problem.Chat(tc.err, "r-1"), "a stream says the same: "+name)
	}
}

// The clients of the protocol decide by these whether to retry, and show the param.
func TestChatCodes(t *testing.T) {
	t.Parallel()
	at := func(detail string) error { return fault.New(schemas.ValidationError, detail) }
	provider := func(status int, details string) error {
		return &problem.Error{Problem: schemas.Problem{Code: schemas.ModelFailed, Status: status}, Details: json.RawMessage(details)}
	}
	for name, tc := range map[string]struct {
		err               error
		code, kind, param string
	}{
		"member":         {at("at /messages/0/tool_calls/11/a~1b: no"), "validation_error", "invalid_request_error", "messages[0].tool_calls[11].a/b"},
		"whole body":     {at("at /: no"), "validation_error", "invalid_request_error", ""},
		"no pointer":     {at("look at /x: no"), "validation_error", "invalid_request_error", ""},
		"model":          {fault.New(schemas.ModelNotFound, "at /model: no"), "model_not_found", "invalid_request_error", "model"},
		"model, later":   {fault.New(schemas.ModelNotFound, "no"), "model_not_found", "invalid_request_error", "model"},
		"token":          {fault.New(schemas.Unauthorized, "no"), "invalid_api_key", "authentication_error", ""},
		"scope":          {fault.New(schemas.Forbidden, "no"), "forbidden", "permission_error", ""},
		"budget":         {fault.New(schemas.BudgetExhausted, "no"), "insufficient_quota", "insufficient_quota", ""},
		"rate":           {fault.New(schemas.RateLimited, "no"), "rate_limit_exceeded", "rate_limit_error", ""},
		"log":            {fault.ErrUnavailable, "unavailable", "server_error", ""},
		"provider full":  {provider(429, `{}`), "rate_limit_exceeded", "rate_limit_error", ""},
		"provider":       {provider(502, `{}`), "model_failed", "server_error", ""},
		"provider words": {provider(400, `{"provider_code":"context_length_exceeded","provider_type":"too_long","provider_param":"messages"}`), "context_length_exceeded", "too_long", "messages"},
	} {
		e := problem.Chat(tc.err, "")
		require.Equal(t, []string{tc.code, tc.kind}, []string{e.Code, e.Type}, name)
		require.Equal(t, tc.param, ptr(e.Param), name)
	}
}

// ptr is what p points to, or "".
func ptr(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

func TestLimits(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	problem.Limits(h, nil)
	require.Empty(t, h)
	problem.Limits(h, []schemas.ChatLimit{
		{Source: "a", What: schemas.BudgetTokens, Limit: 100, Remaining: 20, ResetMS: 5000},
		{Source: "b", What: schemas.BudgetTokens, Limit: 50, Remaining: 10, ResetMS: 1},
		{Source: "c", What: schemas.BudgetTokens, Limit: 70, Remaining: 10, ResetMS: 2001},
		{Source: "d", What: schemas.BudgetTokens, Limit: 60, Remaining: 10, ResetMS: 2000},
		{Source: "e", What: schemas.BudgetRequests, Limit: 5, Remaining: -1, ResetMS: 100},
		{Source: "f", What: schemas.BudgetRequests, Limit: 6, Remaining: -1},
		{Source: "g", What: schemas.BudgetRequests, Limit: 7, Remaining: -1, ResetMS: 200},
		{Source: "h", What: schemas.BudgetUSD, Limit: 1, Remaining: 0, ResetMS: 200},
	})
	got := map[string]string{}
	for name, values := range h {
		got[name] = values[0]
	}
	require.Equal(t, map[string]string{
		"X-Ratelimit-Limit-Tokens": "70", "X-Ratelimit-Remaining-Tokens": "10", "X-Ratelimit-Reset-Tokens": "3s",
		"X-Ratelimit-Limit-Requests": "6", "X-Ratelimit-Remaining-Requests": "0",
	}, got, "what leaves the least, and of that what lasts longest")
}

// The clients of the protocol decide by the status and the type whether to retry.
func TestWriteMessages(t *testing.T) {
	t.Parallel()
	of := func(status int, code schemas.Code, details string) error {
		return &problem.Error{Problem: schemas.Problem{Code: code, Status: status, Detail: "<no>"}, Details: json.RawMessage(details), RetryAfter: 1500 * time.Millisecond}
	}
	for name, tc := range map[string]struct {
		err    error
		status int
		class  string
		after  string
	}{
		"ours":             {errors.New("dial 10.1.2.3: secret"), 500, "api_error", ""},
		"invalid":          {fault.New(schemas.InvalidRequest, "<no>"), 400, "invalid_request_error", ""},
		"key":              {fault.New(schemas.IdempotencyMismatch, "<no>"), 422, "invalid_request_error", ""},
		"no token":         {fault.New(schemas.Unauthorized, "<no>"), 401, "authentication_error", ""},
		"budget":           {fault.New(schemas.BudgetExhausted, "<no>"), 402, "billing_error", ""},
		"scope":            {fault.New(schemas.Forbidden, "<no>"), 403, "permission_error", ""},
		"no model":         {fault.New(schemas.ModelNotFound, "<no>"), 404, "not_found_error", ""},
		"too large":        {fault.ErrTooLarge, 413, "request_too_large", ""},
		"unavailable":      {fault.ErrUnavailable, 503, "overloaded_error", "1"},
		"the provider":     {of(502, schemas.ModelFailed, ""), 502, "api_error", "2"},
		"overloaded":       {of(529, schemas.ModelFailed, ""), 529, "overloaded_error", "2"},
		"its own words":    {of(502, schemas.ModelFailed, `{"provider_type":"overloaded_error"}`), 502, "overloaded_error", "2"},
		"another's words":  {of(400, schemas.ModelFailed, `{"provider_type":"BadRequest"}`), 400, "invalid_request_error", "2"},
		"canceled":         {of(schemas.ChatCanceled, schemas.Canceled, ""), schemas.ChatCanceled, "invalid_request_error", "2"},
		"details: no JSON": {of(400, schemas.ModelFailed, `{"a":`), 400, "invalid_request_error", "2"},
	} {
		w := answered(t, tc.status, "application/json", tc.after, func(w http.ResponseWriter, r *http.Request) {
			problem.WriteChat(w, r, schemas.DialectCount, tc.err)
		}, name)
		require.NotContains(t, w.Body.String(), `\u003c`, "texts are not escaped for HTML: "+name)
		var body schemas.MessagesRefusal
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body), name)
		require.Equal(t, "error", body.Type, name)
		require.Equal(t, "r-1", body.RequestID, name)
		require.Equal(t, tc.class, body.Error.Type, name)
		require.NotEmpty(t, body.Error.Message, name)
		var metadata map[string]any
		require.NoError(t, json.Unmarshal(body.Error.Metadata, &metadata), name)
		require.EqualValues(t, tc.status, metadata["status"], name)
		require.Equal(t, string(problem.Of(tc.err).Code), metadata["code"], name)
		require.Equal(t, body, problem.Messages(tc.err, "r-1"), "a stream says the same: "+name)
	}
}
