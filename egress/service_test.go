package egress_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/egress"
	"weir/internal/fault"
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
