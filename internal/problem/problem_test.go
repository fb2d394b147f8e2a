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
	"weir/schemas"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	secret := errors.New("dial tcp 10.1.2.3:443: secret")
	for name, tc := range map[string]struct {
		err        error
		status     int
		code       schemas.Code
		retryable  bool
		retryAfter string
	}{
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
		"poison":        {&fault.Parked{Code: schemas.Poison, Reason: "x", Cause: secret}, 500, schemas.Internal, false, ""},
		"rate":          {&problem.Error{Problem: schemas.Problem{Code: schemas.RateLimited}, RetryAfter: 1500 * time.Millisecond}, 429, schemas.RateLimited, true, "2"},
		"key conflict":  {fault.New(schemas.IdempotencyMismatch, "other payload"), 422, schemas.IdempotencyMismatch, false, ""},
		"in flight":     {fault.New(schemas.InFlight, "wait"), 409, schemas.InFlight, true, ""},
		"unauthorized":  {fault.New(schemas.Unauthorized, "no token"), 401, schemas.Unauthorized, false, ""},
		"upstream":      {fault.New(schemas.UpstreamTLS, "x"), 502, schemas.UpstreamTLS, false, ""},
		"upstream time": {fault.New(schemas.UpstreamTimeout, "x"), 504, schemas.UpstreamTimeout, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(problem.WithRequestID(t.Context(), "r-1"), http.MethodGet, "/", http.NoBody)
			problem.Write(w, r, tc.err)
			require.Equal(t, tc.status, w.Code)
			require.Equal(t, problem.MediaType, w.Header().Get("Content-Type"))
			require.Equal(t, tc.retryAfter, w.Header().Get("Retry-After"))
			var p schemas.Problem
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
			require.Equal(t, tc.code, p.Code)
			require.Equal(t, tc.status, p.Status)
			require.Equal(t, tc.retryable, p.Retryable)
			require.Equal(t, "about:blank", p.Type)
			require.Equal(t, http.StatusText(tc.status), p.Title)
			require.Equal(t, "r-1", p.RequestID)
			require.NotContains(t, w.Body.String(), "secret")
		})
	}
}

func TestUnauthorizedNamesTheScheme(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	problem.Write(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody), fault.New(schemas.Unauthorized, "no"))
	require.Equal(t, "Bearer", w.Header().Get("WWW-Authenticate"))
}

func TestEveryDoorCodeHasAStatus(t *testing.T) {
	t.Parallel()
	for _, c := range schemas.DoorCodes() {
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
		w := httptest.NewRecorder()
		problem.WriteRun(w, "run-1", tc.err)
		require.Equal(t, tc.status, w.Code, tc)
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		require.Equal(t, tc.retryAfter, w.Header().Get("Retry-After"))
		require.NotContains(t, w.Body.String(), "secret")
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
