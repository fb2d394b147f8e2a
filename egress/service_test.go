package egress_test

import (
	"context"
	"encoding/json"
	"errors"
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

func TestConsoleRoutes(t *testing.T) {
	t.Parallel()
	var fails error
	h := build(t, func(c *config) {
		c.Session = func(*http.Request) (schemas.ConsoleSession, error) {
			return schemas.ConsoleSession{Mode: "tokens", SignedIn: true, Tenant: "acme"}, fails
		}
	})
	a := h.ask(http.MethodGet, "/console", "")
	require.Equal(t, http.StatusPermanentRedirect, a.Code)
	require.Equal(t, "/console/", a.Header().Get("Location"))
	a = h.ask(http.MethodGet, "/console/", "")
	require.Equal(t, http.StatusOK, a.Code)
	require.Contains(t, a.Body.String(), `<div id="app">`)
	require.Equal(t, http.StatusNotFound, h.ask(http.MethodGet, "/console/assets/nothing.js", "").Code)
	require.Equal(t, http.StatusNotFound, h.ask(http.MethodGet, "/console/assets/..%2findex.html", "").Code)
	a = h.ask(http.MethodGet, "/console/session", "")
	require.Equal(t, schemas.ConsoleSession{Mode: "tokens", SignedIn: true, Tenant: "acme"}, decode[schemas.ConsoleSession](t, a.Body))
	fails = fault.New(schemas.Unavailable, "later")
	require.Equal(t, http.StatusServiceUnavailable, h.ask(http.MethodGet, "/console/session", "").Code)
	require.Equal(t, http.StatusNotFound, build(t).ask(http.MethodGet, "/console/", "").Code, "a node that has none")
}

func TestPayloadRoute(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.claim(httpRef("a"))
	a := h.get("/v1/actions/a/payload")
	require.Equal(t, http.StatusOK, a.Code)
	got := decode[schemas.ActionPayload](t, a.Body)
	require.Equal(t, schemas.KindHTTP, got.Kind)
	require.JSONEq(t, `{"method":"GET","url":"http://u:secret.example@API.example/orders?key=secret.example"}`, string(got.Payload))
	chat := httpRef("c")
	chat.Kind = schemas.KindChat
	h.claim(chat)
	for _, path := range []string{"/v1/actions/c/payload", "/v1/actions/none/payload", "/v1/actions/x%20y/payload"} {
		require.Equal(t, http.StatusNotFound, h.get(path).Code, path)
	}
	h.failing(func() error { return errors.New("broken") })
	a = h.get("/v1/actions/a/payload")
	require.GreaterOrEqual(t, a.Code, http.StatusInternalServerError)
	require.True(t, json.Valid(a.Body.Bytes()))
	require.NotContains(t, a.Body.String(), "broken")
}
