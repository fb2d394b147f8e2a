package relay_test

import (
	"net/http"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/weirtest/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dial connects to a relay; nil and the status where it refuses.
func dial(t *testing.T, r *relay.Relay, query string) (*websocket.Conn, int) {
	t.Helper()
	tr := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(tr.CloseIdleConnections)
	conn, resp, err := websocket.Dial(t.Context(), r.URL()+"/?"+query, &websocket.DialOptions{ //nolint:bodyclose // there is none to close
		HTTPClient: &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	})
	if err != nil {
		require.NotNil(t, resp, "%v", err)
		return nil, resp.StatusCode
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	return conn, resp.StatusCode
}

func TestWhoIsLetIn(t *testing.T) {
	t.Parallel()
	r := relay.New(t, relay.Config{Token: "t"})
	r.Refuse(http.StatusFound)
	for _, tc := range []struct {
		query  string
		status int
	}{
		{"role=relay&sessionId=s&token=t", http.StatusFound},
		{"role=relay&token=t", http.StatusBadRequest},
		{"role=page&sessionId=s&token=t", http.StatusBadRequest},
		{"role=relay&sessionId=s", http.StatusUnauthorized},
		{"role=agent&sessionId=s&token=x", http.StatusUnauthorized},
		{"role=relay&sessionId=s&token=t", http.StatusSwitchingProtocols},
	} {
		_, status := dial(t, r, tc.query)
		assert.Equal(t, tc.status, status, tc.query)
	}
	r.WaitAttempts(6)
	last := r.Ledger()[5]
	assert.Equal(t, [3]string{relay.RoleRelay, "s", "t"}, [3]string{last.Role, last.Session, last.Token})
}

func TestTwoEndsMeet(t *testing.T) {
	t.Parallel()
	r := relay.New(t, relay.Config{})
	alone, _ := dial(t, r, "role=agent&sessionId=s1")
	require.NotNil(t, alone)
	require.NoError(t, alone.Write(t.Context(), websocket.MessageText, []byte(`{"request":{"request_id":"nobody","operation":"ping"}}`))) // there is no other end: it is dropped
	require.NoError(t, alone.Ping(alone.CloseRead(t.Context())), "and was, before the next frame was read")
	agent, stranger := r.Agent("s1"), r.Agent("s2")
	end, _ := dial(t, r, "role=relay&sessionId=s1")
	require.NotNil(t, end)
	r.Wait("s1", 1)
	agent.Send(`{"request":{"request_id":"r","operation":"ping"}}`)
	kind, got, err := end.Read(t.Context())
	require.NoError(t, err)
	assert.Equal(t, websocket.MessageText, kind)
	assert.Equal(t, `{"request":{"request_id":"r","operation":"ping"}}`, string(got)) //nolint:testifylint // the bytes matter
	require.NoError(t, end.Write(t.Context(), websocket.MessageText, []byte(`{"request_id":"r","n":1}`)))
	assert.JSONEq(t, `{"request_id":"r","n":1}`, string(agent.Answer("r")))
	assert.Empty(t, stranger.Ledger())

	next, _ := dial(t, r, "role=relay&sessionId=s1")
	require.NotNil(t, next)
	_, _, err = end.Read(t.Context())
	assert.Equal(t, websocket.StatusServiceRestart, websocket.CloseStatus(err))
	require.ErrorContains(t, err, "replaced")
	r.Wait("s1", 2)
	r.End("s1", 4001, "no")
	_, _, err = next.Read(t.Context())
	assert.Equal(t, websocket.StatusCode(4001), websocket.CloseStatus(err))
	r.WaitGone("s1")
}
