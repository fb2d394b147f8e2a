package problem_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/problem"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// answered has a request answered whose id is r-1, and checks what every refusal has.
func answered(t *testing.T, status int, media, after string, write http.HandlerFunc, why ...any) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	write(w, httptest.NewRequestWithContext(problem.WithRequestID(t.Context(), "r-1"), http.MethodPost, "/", http.NoBody))
	require.Equal(t, status, w.Code, why...)
	require.Equal(t, media, w.Header().Get("Content-Type"), why...)
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"), why...)
	require.Equal(t, after, w.Header().Get("Retry-After"), why...)
	require.Equal(t, status == 401, w.Header().Get("WWW-Authenticate") != "", why...)
	require.NotContains(t, w.Body.String(), "secret", why...)
	return w
}

func TestWrite(t *testing.T) {
	t.Parallel()
	secret := errors.New("dial tcp 10.1.2.3:443: secret")
	type testCase struct {
		err        error
		status     int
		code       schemas.Code
		retryable  bool
		retryAfter string
	}
	table.Run(t, map[string]testCase{
		"unknown":       {secret, 500, schemas.Internal, false, ""},
		"nil":           {nil, 500, schemas.Internal, false, ""},
		"public":        {&fault.Error{Code: schemas.InvalidRequest, Message: "no", Cause: secret}, 400, schemas.InvalidRequest, false, ""},
		"wrapped":       {fmt.Errorf("x: %w", fault.New(schemas.ValidationError, "no")), 422, schemas.ValidationError, false, ""},
		"not found":     {fmt.Errorf("%w: %w", fault.ErrNotFound, secret), 404, schemas.NotFound, false, ""},
		"gone":          {fault.ErrGone, 410, schemas.StreamGone, false, ""},
		"full":          {fault.ErrFull, 503, schemas.LogFull, true, "60"},
		"unavailable":   {fmt.Errorf("%w: %w", fault.ErrUnavailable, secret), 503, schemas.Unavailable, true, "1"},
		"deadline":      {context.DeadlineExceeded, 503, schemas.Unavailable, true, "1"},
		"conflict":      {fault.ErrConflict, 409, schemas.Conflict, false, ""},
		"fenced":        {fault.ErrFenced, 409, schemas.Conflict, false, ""},
		"too large":     {fault.ErrTooLarge, 413, schemas.PayloadTooLarge, false, ""},
		"body limit":    {&http.MaxBytesError{Limit: 1}, 413, schemas.PayloadTooLarge, false, ""},
		"poison":        {&fault.Terminal{Code: schemas.Poison, Reason: "x", Cause: secret}, 500, schemas.Internal, false, ""},
		"rate":          {&problem.Error{Problem: schemas.Problem{Code: schemas.RateLimited}, RetryAfter: 1500 * time.Millisecond}, 429, schemas.RateLimited, true, "2"},
		"key conflict":  {fault.New(schemas.IdempotencyMismatch, "other payload"), 422, schemas.IdempotencyMismatch, false, ""},
		"in flight":     {fault.New(schemas.InFlight, "wait"), 409, schemas.InFlight, true, "1"},
		"unauthorized":  {fault.New(schemas.Unauthorized, "no token"), 401, schemas.Unauthorized, false, ""},
		"upstream":      {fault.New(schemas.UpstreamTLS, "x"), 502, schemas.UpstreamTLS, false, ""},
		"upstream time": {fault.New(schemas.UpstreamTimeout, "x"), 504, schemas.UpstreamTimeout, false, ""},
	}, func(t *testing.T, tc testCase) {
		w := answered(t, tc.status, problem.MediaType, tc.retryAfter, func(w http.ResponseWriter, r *http.Request) { problem.Write(w, r, tc.err) })
		require.Equal(t, map[bool]string{true: "Bearer"}[tc.status == 401], w.Header().Get("WWW-Authenticate"))
		var p schemas.Problem
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
		require.Equal(t, tc.code, p.Code)
		require.Equal(t, tc.status, p.Status)
		require.Equal(t, tc.retryable, p.Retryable)
		require.Equal(t, "about:blank", p.Type)
		require.Equal(t, http.StatusText(tc.status), p.Title)
		require.Equal(t, "r-1", p.RequestID)
	})
}

func TestEveryIngressCodeHasAStatus(t *testing.T) {
	t.Parallel()
	for _, c := range schemas.IngressCodes() {
		if c != schemas.Internal {
			require.NotEqual(t, 500, problem.Status(c), "%s", c)
		}
	}
	for _, c := range schemas.DenyCodes() {
		require.Equal(t, 403, problem.Status(c), "%s", c)
	}
	for _, c := range schemas.UpstreamCodes() {
		require.GreaterOrEqual(t, problem.Status(c), 502, "%s", c)
	}
}

func TestWriteRun(t *testing.T) {
	t.Parallel()
	secret := errors.New("dial tcp 10.1.2.3:443: secret")
	for _, tc := range []struct {
		err          error
		status       int
		inner, outer schemas.Code
		retryAfter   string
		details      string
	}{
		{secret, 500, schemas.Internal, schemas.Internal, "", ""},
		{fault.New(schemas.InvalidRequest, "no"), 422, schemas.InvalidRequest, schemas.InvalidRequest, "", ""},
		{fault.New(schemas.ValidationError, "no"), 422, schemas.ValidationError, schemas.ValidationError, "", ""},
		{fault.New(schemas.UnsupportedTaskType, "no"), 400, schemas.UnsupportedTaskType, schemas.ValidationError, "", ""},
		{fault.ErrConflict, 409, schemas.Conflict, schemas.Conflict, "", ""},
		{fault.ErrFull, 503, schemas.LogFull, schemas.LogFull, "60", ""},
		{fault.New(schemas.RateLimited, "wait"), 429, schemas.RateLimited, schemas.RateLimited, "1", ""},
		{
			&problem.Error{Problem: schemas.Problem{Code: schemas.StreamGone, EarliestID: "7"}, Cause: secret},
			410, schemas.StreamGone, schemas.StreamGone, "", `{"earliest_id":"7"}`,
		},
		{
			&problem.Error{Problem: schemas.Problem{Code: schemas.ValidationError, Detail: "no"}, Details: json.RawMessage(`{"variant":"Request"}`)},
			422, schemas.ValidationError, schemas.ValidationError, "", `{"variant":"Request"}`,
		},
		{
			&problem.Error{Problem: schemas.Problem{Code: schemas.InvalidRequest, Detail: "no message", Status: 400}},
			400, schemas.InvalidRequest, schemas.InvalidRequest, "", "",
		},
	} {
		w := answered(t, tc.status, "application/json", tc.retryAfter, func(w http.ResponseWriter, _ *http.Request) {
			problem.WriteRun(w, "run-1", tc.err)
		}, tc)
		var body schemas.RunRefusal
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
		require.NotEmpty(t, body.Error.Message)
		require.Equal(t, tc.details, string(body.Error.Details))
		body.Error.Message, body.Error.Details = "", nil
		require.Equal(t, schemas.RunRefusal{
			RequestID: "run-1", Status: "error", Outputs: json.RawMessage(`{}`), Warnings: []string{},
			Error: schemas.RunError{Code: string(tc.inner)}, Code: tc.outer, Retryable: tc.retryAfter != "",
		}, body)
	}
}

func TestWriteAgent(t *testing.T) {
	t.Parallel()
	secret := errors.New("dial tcp 10.1.2.3:443: secret")
	type want struct {
		status     int
		code       schemas.Code
		detail     string
		retryAfter string
	}
	own := func(status int, code schemas.Code, word string) error {
		return &problem.Error{Problem: schemas.Problem{Code: code, Status: status, Detail: "no"}, Word: word, Cause: secret}
	}
	type testCase struct {
		err error
		want
	}
	table.Run(t, map[string]testCase{
		"unknown":        {secret, want{500, schemas.InternalError, "", ""}},
		"nil":            {nil, want{500, schemas.InternalError, "", ""}},
		"invalid":        {fault.New(schemas.InvalidRequest, "no"), want{400, schemas.InvalidRequest, "", ""}},
		"if_match":       {own(0, schemas.InvalidRequest, schemas.DetailIfMatchRequired), want{400, schemas.InvalidRequest, "IF_MATCH_REQUIRED", ""}},
		"validation":     {fault.New(schemas.ValidationError, "no"), want{422, schemas.ValidationError, "", ""}},
		"unauthorized":   {fault.New(schemas.Unauthorized, "no"), want{401, schemas.Unauthorized, "AUTH_REQUIRED", ""}},
		"disabled":       {own(403, schemas.Unauthorized, schemas.DetailAPIDisabled), want{403, schemas.Unauthorized, "AGENT_API_DISABLED", ""}},
		"no scope":       {own(403, schemas.Unauthorized, schemas.DetailScopeRequired), want{403, schemas.Unauthorized, "SCOPE_REQUIRED", ""}},
		"forbidden":      {fault.New(schemas.Forbidden, "no"), want{403, schemas.Unauthorized, "FORBIDDEN", ""}},
		"not found":      {fault.ErrNotFound, want{404, schemas.NotFound, "", ""}},
		"etag":           {fault.New(schemas.EtagMismatch, "no"), want{412, schemas.EtagMismatch, "", ""}},
		"limit":          {fault.New(schemas.RuleLimitExceeded, "no"), want{409, schemas.RuleLimitExceeded, "", ""}},
		"method":         {fault.New(schemas.MethodNotAllowed, "no"), want{405, schemas.InvalidRequest, "METHOD_NOT_ALLOWED", ""}},
		"media type":     {fault.New(schemas.UnsupportedMediaType, "no"), want{415, schemas.InvalidRequest, "UNSUPPORTED_MEDIA_TYPE", ""}},
		"encoding":       {fault.New(schemas.UnsupportedEncoding, "no"), want{415, schemas.InvalidRequest, "UNSUPPORTED_ENCODING", ""}},
		"too large":      {fault.ErrTooLarge, want{413, schemas.InvalidRequest, "PAYLOAD_TOO_LARGE", ""}},
		"slow":           {fault.New(schemas.RequestTimeout, "no"), want{408, schemas.InvalidRequest, "REQUEST_TIMEOUT", ""}},
		"conflict":       {fault.ErrConflict, want{409, schemas.InvalidRequest, "CONFLICT", ""}},
		"rate":           {&problem.Error{Problem: schemas.Problem{Code: schemas.RateLimited}, RetryAfter: 1500 * time.Millisecond}, want{429, schemas.RateLimited, "", "2"}},
		"unavailable":    {fault.ErrUnavailable, want{503, schemas.InternalError, "UNAVAILABLE", "1"}},
		"full":           {fault.ErrFull, want{503, schemas.InternalError, "LOG_FULL", "60"}},
		"expired":        {fault.New(schemas.DeadlineExceeded, "no"), want{504, schemas.InternalError, "DEADLINE_EXCEEDED", ""}},
		"something else": {fault.New(schemas.Poison, "no"), want{500, schemas.InternalError, "POISON", ""}},
	}, func(t *testing.T, tc testCase) {
		for _, asked := range []struct{ id, operation string }{{}, {"<id> \u00e9", "rules.list"}} {
			ctx := t.Context()
			if asked.id != "" {
				ctx = problem.WithAgent(ctx, asked.id, asked.operation)
			}
			w := answered(t, tc.status, "application/json", tc.retryAfter, func(w http.ResponseWriter, r *http.Request) {
				problem.WriteAgent(w, r.WithContext(ctx), tc.err)
			})
			var body schemas.AgentResponse
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
			require.NotNil(t, body.Error)
			require.NotEmpty(t, body.Error.Message)
			require.Equal(t, schemas.AgentResponse{
				RequestID: asked.id, Operation: asked.operation,
				Error: &schemas.AgentError{Code: tc.code, Message: body.Error.Message, Detail: tc.detail},
			}, body)
		}
	})
}

// TestEveryCodeHasAWordForAgents: what the agent API says is one of few words.
func TestEveryCodeHasAWordForAgents(t *testing.T) {
	t.Parallel()
	known := []schemas.Code{
		schemas.InvalidRequest, schemas.Unauthorized, schemas.NotFound, schemas.EtagMismatch, schemas.ValidationError,
		schemas.RuleLimitExceeded, schemas.InternalError, schemas.RateLimited,
	}
	for _, c := range append(schemas.SettleCodes(), schemas.IngressCodes()...) {
		code, detail := problem.AgentCode(c)
		require.Contains(t, known, code, "%s", c)
		require.True(t, code == c || c == schemas.Internal || detail == string(c), "%s", c)
	}
}

func TestWriteGit(t *testing.T) {
	t.Parallel()
	limited := &problem.Error{Problem: schemas.Problem{Code: schemas.RateLimited, Detail: "wait"}, RetryAfter: 1500 * time.Millisecond}
	for name, tc := range map[string]struct {
		err               error
		status            int
		text, again, asks string
	}{
		"a sentence":  {fault.New(schemas.NotFound, "there is none"), 404, "there is none (NOT_FOUND)\n", "", ""},
		"no sentence": {&problem.Error{Problem: schemas.Problem{Code: schemas.Forbidden}}, 403, "Forbidden (FORBIDDEN)\n", "", ""},
		"ours":        {errors.New("dial 10.1.2.3: secret"), 500, "something went wrong on our side (INTERNAL)\n", "", ""},
		"no token":    {fault.New(schemas.Unauthorized, "send one"), 401, "send one (UNAUTHORIZED)\n", "", `Basic realm="weir"`},
		"later":       {limited, 429, "wait (RATE_LIMITED)\n", "2", ""},
	} {
		for agent, isGit := range map[string]bool{"git/2.39.5": true, "": false, "curl/8 git/2": false} {
			media := map[bool]string{true: "text/plain; charset=utf-8", false: problem.MediaType}[isGit]
			w := answered(t, tc.status, media, tc.again, func(w http.ResponseWriter, r *http.Request) {
				r.Header.Set("User-Agent", agent)
				problem.WriteGit(w, r, tc.err)
			}, name)
			require.Equal(t, tc.asks, w.Header().Get("WWW-Authenticate"), name)
			if isGit {
				require.Equal(t, tc.text, w.Body.String(), name)
				continue
			}
			var p schemas.Problem
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p), name)
			require.Equal(t, "r-1", p.RequestID, name)
		}
	}
}
