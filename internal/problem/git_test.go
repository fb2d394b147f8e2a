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
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(problem.WithRequestID(t.Context(), "r-1"), http.MethodGet, "/", http.NoBody)
			r.Header.Set("User-Agent", agent)
			problem.WriteGit(w, r, tc.err)
			require.Equal(t, tc.status, w.Code, name)
			require.Equal(t, tc.asks, w.Header().Get("WWW-Authenticate"), name)
			require.Equal(t, tc.again, w.Header().Get("Retry-After"), name)
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"), name)
			require.NotContains(t, w.Body.String(), "secret", name)
			if isGit {
				require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"), name)
				require.Equal(t, tc.text, w.Body.String(), name)
				continue
			}
			require.Equal(t, problem.MediaType, w.Header().Get("Content-Type"), name)
			var p schemas.Problem
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p), name)
			require.Equal(t, "r-1", p.RequestID, name)
		}
	}
}
