package egress_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/egress"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/schemas"
)

// listing serves one token a tenant.
func listing(c *egress.Config) {
	c.Tokens = func(_ context.Context, tenant, cursor string, limit int) (page schemas.Page[schemas.Token], err error) {
		if tenant == "down" {
			return page, &fault.Error{Code: schemas.Unavailable, Message: "try again", Cause: errDown}
		}
		page.Items = []schemas.Token{{ID: "of-" + tenant, Name: "n", Tenant: tenant, Scopes: []string{"admin"}, Status: "active"}}
		page.Next = fmt.Sprintf("%d behind %q", limit, cursor)
		return page, nil
	}
}

func TestTokensOfATenant(t *testing.T) {
	t.Parallel()
	h := build(t, listing)
	for _, tc := range []struct {
		tenant, query string
		status        int
		want, next    string
	}{
		{"acme", "", 200, "of-acme", `100 behind ""`},
		{"acme", "?tenant=acme", 200, "of-acme", `100 behind ""`},
		{"acme", "?limit=7&cursor=a-1", 200, "of-acme", `7 behind "a-1"`},
		{"acme", "?tenant=other", 403, "", ""},
		{"default", "", 200, "of-default", `100 behind ""`},
		{"default", "?tenant=other&cursor=b", 200, "of-other", `100 behind "b"`},
		{"default", "?tenant=a%2Fb", 400, "", ""},
		{"default", "?tenant=", 400, "", ""},
		{"default", "?tenant=a&tenant=b", 400, "", ""},
		{"default", "?cursor=", 400, "", ""},
		{"default", "?cursor=a&cursor=a", 400, "", ""},
		{"default", "?limit=0", 400, "", ""},
		{"default", "?limit=1001", 400, "", ""},
		{"default", "?tenant=down", 503, "", ""},
		{"weak", "", 403, "", ""},
		{"", "", 401, "", ""},
	} {
		w := h.ask(http.MethodGet, "/v1/tokens"+tc.query, tc.tenant)
		require.Equal(t, tc.status, w.Code, tc)
		require.NotContains(t, w.Body.String(), "10.0.0.1")
		if tc.want == "" {
			require.Equal(t, problem.MediaType, w.Header().Get("Content-Type"))
			continue
		}
		p := decode[schemas.Page[schemas.Token]](t, w.Body)
		require.Len(t, p.Items, 1)
		require.Equal(t, tc.want, p.Items[0].ID)
		require.Equal(t, tc.next, p.Next)
		require.Equal(t, http.StatusOK, h.ask(http.MethodHead, "/v1/tokens"+tc.query, tc.tenant).Code)
	}
	require.Equal(t, http.StatusNotFound, build(t).ask(http.MethodGet, "/v1/tokens", "default").Code, "an open node has none")
}

// TestWhatANodeSaysToWhom: metrics are for who has their scope, and nothing at all to others.
func TestWhatANodeSaysToWhom(t *testing.T) {
	t.Parallel()
	h := build(t, func(c *egress.Config) {
		c.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "weir_up 1\n") })
		c.OpenAPI = []byte(`{}`)
		c.Allow = func(r *http.Request, scope string) error {
			switch who := r.Header.Get("Authorization"); {
			case who == "":
				return fault.New(schemas.Unauthorized, "no token")
			case who == "Bearer busy":
				return fault.New(schemas.RateLimited, "wait")
			case scope != "" && who != "Bearer "+scope:
				return fault.New(schemas.Forbidden, "lacks "+scope)
			}
			return nil
		}
	})
	for path, want := range map[string]map[string]int{
		"/metrics":      {"": 404, "agent": 404, "metrics:read": 200, "busy": 429},
		"/sandbox":      {"": 401, "agent": 200, "admin": 200, "busy": 429},
		"/healthz":      {"": 200, "busy": 200},
		"/readyz":       {"": 200, "busy": 200},
		"/health":       {"": 200, "busy": 200},
		"/health/ready": {"": 200, "busy": 200},
		"/ready":        {"": 200, "busy": 200},
		"/openapi.json": {"": 200, "busy": 200},
	} {
		for who, status := range want {
			w := h.ask(http.MethodGet, path, who)
			require.Equal(t, status, w.Code, "%s for %q", path, who)
			if path == "/metrics" && status == http.StatusNotFound {
				require.Contains(t, w.Body.String(), "there is nothing at this path", "as of any other path")
				require.Empty(t, w.Header().Get("WWW-Authenticate"))
			}
		}
	}
}

// TestStreamsAreWatched: one that may not be held open is refused, and one that
// may no longer be is ended, whoever writes meanwhile.
func TestStreamsAreWatched(t *testing.T) {
	t.Parallel()
	type key struct{}
	ends := make(chan context.CancelFunc, 1)
	released := make(chan struct{}, 1)
	h := build(t, func(c *egress.Config) {
		c.HTTP.Watch = func(r *http.Request) (context.Context, func(), error) {
			if r.Header.Get("X-Many") != "" {
				return nil, nil, &fault.Error{Code: schemas.RateLimited, Message: "too many streams", Cause: errors.New("private")}
			}
			ctx, cancel := context.WithCancel(context.WithValue(r.Context(), key{}, 1))
			ends <- cancel
			return ctx, func() { cancel(); released <- struct{}{} }, nil
		}
	})
	h.append(h.claim(httpRef("a")), schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "w"}})
	h.evidence("acme", schemas.EvidenceAttempt, "e", "a")
	srv := httptest.NewServer(h.engine)
	t.Cleanup(srv.Close)
	open := func(path string, header ...string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path, http.NoBody)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer acme")
		req.Header.Set("Accept", "text/event-stream")
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := srv.Client().Do(req)
		require.NoError(t, err)
		return resp
	}
	for _, path := range []string{"/v1/actions/a/events", "/v1/evidence"} {
		resp := open(path, "X-Many", "1")
		require.Equal(t, http.StatusTooManyRequests, resp.StatusCode, path)
		require.NotEmpty(t, resp.Header.Get("Retry-After"))
		require.NoError(t, resp.Body.Close())

		resp = open(path)
		require.Equal(t, http.StatusOK, resp.StatusCode, path)
		(<-ends)()
		_, err := io.ReadAll(resp.Body)
		require.NoError(t, err, "the stream ends as a stream ends")
		require.NoError(t, resp.Body.Close())
		<-released

		resp = open(path, "Accept", "application/json")
		require.Equal(t, http.StatusOK, resp.StatusCode, "a page is no stream")
		require.NoError(t, resp.Body.Close())
		require.Empty(t, ends)
	}
	w := h.ask(http.MethodHead, "/v1/evidence", "acme", "Accept", "text/event-stream")
	require.Equal(t, http.StatusOK, w.Code)
	require.Empty(t, ends, "neither is a HEAD")
}
