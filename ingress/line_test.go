package ingress_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/wire"
	"weir/schemas"
)

// one is a listener with one connection.
type one struct{ net.Conn }

func (l one) Accept() (net.Conn, error) { return l.Conn, nil }
func (l one) Addr() net.Addr            { return l.LocalAddr() }

// streamed asks for a run's stream as over a connection of the listener.
func streamed(t *testing.T) *http.Request {
	t.Helper()
	ours, theirs := net.Pipe()
	c, err := wire.Wrap(one{ours}, wire.Config{}).Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(); _ = theirs.Close() })
	r := post(schemas.RouteRunStream, `{"request_id":"r","task_type":"ECHO"}`, "X-Request-ID", "mine")
	r = r.WithContext(wire.Context(r.Context(), c))
	wire.Begin(r.Context())
	return r
}

func TestTheLineOfAStreamComesAtItsEnd(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := streamed(t)
	ended := false
	w.responder.rest = func() { ended = true }
	a := httptest.NewRecorder()
	w.engine.ServeHTTP(a, r)
	require.Equal(t, http.StatusOK, a.Code)
	require.False(t, ended)
	require.Empty(t, w.logs.String(), "it goes on")
	wire.Finish(r.Context())
	require.True(t, ended)
	require.Equal(t, 1, strings.Count(w.logs.String(), `"msg":"request"`))
	for _, want := range []string{
		`"request_id":"mine"`, `"status":200`, `"method":"POST"`, `"route":"/agents/run/stream"`, `"surface":"runs"`,
		`"action_id":"r"`, `"tenant":"default"`, `"duration_ms":`,
	} {
		require.Contains(t, w.logs.String(), want)
	}
}

func TestAPanicInTheRestOfAStreamCutsIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		value any
		told  bool
	}{
		"a fault":  {"AGWCANARY-PANIC", true},
		"an abort": {http.ErrAbortHandler, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			r := streamed(t)
			w.responder.rest = func() { panic(tc.value) }
			w.engine.ServeHTTP(httptest.NewRecorder(), r)
			require.PanicsWithError(t, http.ErrAbortHandler.Error(), func() { wire.Finish(r.Context()) })
			require.NotContains(t, w.logs.String(), "AGWCANARY")
			require.Contains(t, w.logs.String(), `"msg":"request"`)
			require.Equal(t, tc.told, strings.Contains(w.logs.String(), `"err_kind":"panic"`))
		})
	}
}
