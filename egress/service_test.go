package egress_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/schemas"
)

func TestServiceRoutes(t *testing.T) {
	t.Parallel()
	h := build(t, func(c *config) {
		c.Service.OpenAPI = []byte(`{"openapi":"3.1.0"}`)
		c.Service.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("weir_up 1\n")) })
		c.Service.Checks = []egress.Check{{Name: "log", Run: func(context.Context) error { return nil }}}
	})
	for path, want := range map[string]string{
		"/healthz":      "ok",
		"/sandbox":      `{"allowed_hosts":["localhost","::1"]}`,
		"/metrics":      "weir_up 1\n",
		"/openapi.json": `{"openapi":"3.1.0"}`,
		"/readyz":       `{"ready":true,"durability":"disk","partitions":3,"policy_version":"v-1","checks":{"feed":"ok","log":"ok"}}`,
		"/health":       `{"status":"ok"}`,
		"/health/ready": `{"status":"ready","ready":true,"durability":"disk","partitions":3,"policy_version":"v-1","checks":{"feed":"ok","log":"ok"}}`,
		"/ready":        "Ready",
		"/api/ready":    "Ready",
	} {
		who := ""
		if path == "/sandbox" {
			who = "acme"
		}
		w := h.ask(http.MethodGet, path, who)
		require.Equal(t, http.StatusOK, w.Code, path)
		require.Equal(t, want, w.Body.String(), path)
		require.Equal(t, http.StatusOK, h.ask(http.MethodHead, path, who).Code, path)
	}
	require.Equal(t, "text/plain; charset=utf-8", h.ask(http.MethodGet, "/healthz", "").Header().Get("Content-Type"))

	h = build(t, func(c *config) {
		c.Service.Allow = func(*http.Request, string) error { return fault.New(schemas.RateLimited, "wait") }
	})
	require.Equal(t, http.StatusTooManyRequests, h.ask(http.MethodGet, "/metrics", "").Code, "a later request would be served")
	h = build(t, func(c *config) { c.Service.AllowedHosts = func() []string { return nil } })
	require.JSONEq(t, `{"allowed_hosts":[]}`, h.ask(http.MethodGet, "/sandbox", "acme").Body.String())
	require.JSONEq(t, `{"allowed_hosts":[]}`, build(t).ask(http.MethodGet, "/sandbox", "acme/one").Body.String(), "entries leave no hosts")
}

func TestNotReadySaysWhichCheck(t *testing.T) {
	t.Parallel()
	h := build(t, func(c *config) {
		c.Service.Checks = []egress.Check{
			{Name: "log", Run: func(context.Context) error { return errDown }},
			{Name: "disk", Run: func(context.Context) error { return nil }},
		}
	})
	for path, word := range map[string]string{"/readyz": `{"ready":false,`, "/health/ready": `{"status":"not_ready",`} {
		w := h.ask(http.MethodGet, path, "")
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.NotEmpty(t, w.Header().Get("Retry-After"))
		require.Contains(t, w.Body.String(), word)
		require.Contains(t, w.Body.String(), `"reasons":["log is not ready"]`)
		require.NotContains(t, w.Body.String(), "10.0.0.1")
	}
	w := h.ask(http.MethodGet, "/ready", "")
	require.Equal(t, []any{http.StatusServiceUnavailable, "Not ready"}, []any{w.Code, w.Body.String()})
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	require.Equal(t, http.StatusOK, h.ask(http.MethodGet, "/health", "").Code, "it answers all the same")
}

func listing(c *config) {
	c.Tokens = func(string, string, int) (page schemas.Page[schemas.Token], err error) { return page, nil }
}

// TestStreamsAreWatched: one that may not be held open is refused, and one that
// may no longer be is ended, whoever writes meanwhile.
func TestStreamsAreWatched(t *testing.T) {
	t.Parallel()
	type key struct{}
	ends := make(chan context.CancelFunc, 1)
	released := make(chan struct{}, 1)
	h := build(t, func(c *config) {
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
	for _, path := range []string{"/v1/actions/a/events", "/v1/evidence"} {
		w := h.get(path, "Accept", "text/event-stream", "X-Many", "1")
		require.Equal(t, http.StatusTooManyRequests, w.Code, path)
		require.NotEmpty(t, w.Header().Get("Retry-After"))

		got := make(chan *httptest.ResponseRecorder)
		go func() { got <- h.get(path, "Accept", "text/event-stream") }()
		(<-ends)()
		w = <-got
		require.Equal(t, http.StatusOK, w.Code, path)
		require.True(t, strings.HasSuffix(w.Body.String(), "\n\n"), "the stream ends as a stream ends")
		<-released

		require.Equal(t, http.StatusOK, h.get(path, "Accept", "application/json").Code, "a page is no stream")
		require.Empty(t, ends)
	}
	w := h.ask(http.MethodHead, "/v1/evidence", "acme", "Accept", "text/event-stream")
	require.Equal(t, http.StatusOK, w.Code)
	require.Empty(t, ends, "neither is a HEAD")
}

type accounts map[string][]schemas.BudgetView

func (a accounts) List(_ context.Context, tenant string) ([]schemas.BudgetView, error) {
	if tenant == "down" {
		return nil, &fault.Error{Code: schemas.Unavailable, Message: "try again", Cause: errDown}
	}
	return a[tenant], nil
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	count := &schemas.BudgetCount{Limit: 10, Used: 2.5, Held: 1}
	all := []schemas.BudgetView{
		{Budget: "a", Tokens: count, Resets: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		{Budget: "b", Token: "k", Model: "openai.x", USD: count, Open: 1},
		{Budget: "b", Token: "k", Model: "openai/x", USD: count},
		{Budget: "b", Token: "k", Model: "openai:x", USD: count},
		{Budget: "b", Token: "k-2", Model: "m", USD: count},
		{Budget: "task", Task: "j.1", Requests: count},
	}
	h := build(t, func(c *config) { c.Budgets = accounts{"acme": all, "other": nil} })
	list := func(query string) schemas.Page[schemas.BudgetView] {
		t.Helper()
		w := h.ask(http.MethodGet, "/v1/budgets"+query, "acme")
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, http.StatusOK, h.ask(http.MethodHead, "/v1/budgets"+query, "acme").Code)
		return decode[schemas.Page[schemas.BudgetView]](t, w.Body)
	}
	require.Equal(t, schemas.Page[schemas.BudgetView]{Items: all}, list(""))
	require.Equal(t, all[1:5], list("?budget=b").Items)
	require.Equal(t, []schemas.BudgetView{}, list("?budget=c").Items)
	for limit := 1; limit <= len(all); limit++ {
		require.Equal(t, all, pages[schemas.BudgetView](h, "/v1/budgets", limit), limit)
	}
	require.Equal(t, all[5:], list("?cursor="+base64.RawURLEncoding.EncodeToString([]byte("c\x00\x00\x00"))).Items, "of one that is gone by now")
	require.JSONEq(t, `{"items":[{"budget":"a","tokens":{"limit":10,"used":2.5,"held":1},"open":0,"resets":"2026-01-02T03:04:05Z"}],"next":"YQAAAA"}`,
		h.ask(http.MethodGet, "/v1/budgets?limit=1", "acme").Body.String())
	require.JSONEq(t, `{"items":[]}`, h.ask(http.MethodGet, "/v1/budgets", "other").Body.String())
	for _, tc := range []struct {
		who, query string
		status     int
	}{
		{"acme", "?budget=", 400},
		{"acme", "?budget=a&budget=b", 400},
		{"acme", "?cursor=YQ", 400},
		{"acme", "?limit=0", 400},
		{"down", "", 503},
	} {
		w := h.ask(http.MethodGet, "/v1/budgets"+tc.query, tc.who)
		require.Equal(t, tc.status, w.Code, tc)
		require.Equal(t, problem.MediaType, w.Header().Get("Content-Type"))
		require.NotContains(t, w.Body.String(), "10.0.0.1")
	}
	require.Equal(t, http.StatusNotFound, build(t).ask(http.MethodGet, "/v1/budgets", "acme").Code)
}
