package problem_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/problem"
	"weir/schemas"
)

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
		"its own words":    {of(502, schemas.ModelFailed, `{"provider_type":"overloaded_error"}`), 502, "overloaded_error", "2"},
		"another's words":  {of(400, schemas.ModelFailed, `{"provider_type":"BadRequest"}`), 400, "invalid_request_error", "2"},
		"canceled":         {of(schemas.ChatCanceled, schemas.Canceled, ""), schemas.ChatCanceled, "invalid_request_error", "2"},
		"details: no JSON": {of(400, schemas.ModelFailed, `{"a":`), 400, "invalid_request_error", "2"},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(problem.WithRequestID(t.Context(), "r-1"), http.MethodPost, "/", http.NoBody)
		problem.WriteFor(schemas.DialectCount)(w, r, tc.err)
		require.Equal(t, tc.status, w.Code, name)
		require.Equal(t, tc.after, w.Header().Get("Retry-After"), name)
		require.NotContains(t, w.Body.String(), "secret", name)
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
