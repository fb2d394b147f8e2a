package egress_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/egress"
	"weir/internal/fault"
	"weir/schemas"
)

func TestConsoleRoutes(t *testing.T) {
	t.Parallel()
	var fails error
	h := build(t, func(c *egress.Config) {
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
	require.JSONEq(t, `{"method":"GET","url":"http://secret.example/"}`, string(got.Payload))
	chat := httpRef("c")
	chat.Kind = schemas.KindChat
	h.claim(chat)
	for _, path := range []string{"/v1/actions/c/payload", "/v1/actions/none/payload", "/v1/actions/x%20y/payload"} {
		require.Equal(t, http.StatusNotFound, h.get(path).Code, path)
	}
	require.Equal(t, http.StatusUnauthorized, h.ask(http.MethodGet, "/v1/actions/a/payload", "").Code)
	require.Equal(t, http.StatusNotFound, h.ask(http.MethodGet, "/v1/actions/a/payload", "stranger").Code)
	h.failing(func() error { return errors.New("broken") })
	a = h.get("/v1/actions/a/payload")
	require.GreaterOrEqual(t, a.Code, http.StatusInternalServerError)
	require.True(t, json.Valid(a.Body.Bytes()))
	require.NotContains(t, a.Body.String(), "broken")
}
