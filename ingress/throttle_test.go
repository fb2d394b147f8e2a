package ingress

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"weir/internal/fault"
	"weir/internal/wire"
	"weir/schemas"
)

// guarded is an engine that knows one token, with a clock that stands until it is moved.
func guarded(now *time.Time) *gin.Engine {
	e := NewEngine(EngineConfig{Known: good, Now: func() time.Time { return *now }})
	e.GET("/x", func(c *gin.Context) {
		if !good(c.Request) {
			Fail(c, fault.New(schemas.Unauthorized, "no"))
		}
	})
	return e
}

func TestWrongTokensAreThrottled(t *testing.T) {
	t.Parallel()
	now := time.Now()
	e := guarded(&now)
	ask := func(peer, token string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", http.NoBody)
		r.RemoteAddr = peer
		if token != "" {
			r.Header.Set("Authorization", token)
		}
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		return w
	}
	for i := range wrongTokens {
		require.Equal(t, http.StatusUnauthorized, ask("10.0.0.1:1", fmt.Sprint("Bearer ", i)).Code)
		require.Equal(t, http.StatusUnauthorized, ask("[2001:db8::1]:1", fmt.Sprint("Bearer ", i)).Code)
	}
	w := ask("10.0.0.1:2", "Bearer another")
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	require.Contains(t, w.Body.String(), `"code":"RATE_LIMITED"`)
	require.Equal(t, http.StatusTooManyRequests, ask("[2001:db8::2]:1", "Bearer x").Code, "another address of the same network")
	require.Equal(t, http.StatusOK, ask("10.0.0.1:1", "Bearer good").Code, "a proxy's other callers are not locked out")
	require.Equal(t, http.StatusUnauthorized, ask("10.0.0.1:1", "").Code, "no token is no guess")
	require.Equal(t, http.StatusUnauthorized, ask("10.0.0.2:1", "Bearer x").Code, "another peer")
	now = now.Add(time.Second)
	for range wrongPerSecond {
		require.Equal(t, http.StatusUnauthorized, ask("10.0.0.1:1", "Bearer x").Code)
	}
	require.Equal(t, http.StatusTooManyRequests, ask("10.0.0.1:1", "Bearer x").Code)
}

// TestTokensThatCount: an open node's callers send any token, which is not looked at. A wrong one counts
// wherever a route reads one, and a request without one does not.
func TestTokensThatCount(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		open                bool
		path, header, token string
		want                bool
	}{
		{true, "/v1/execute", "Authorization", "Bearer dummy", false},
		{true, "/v1/execute", "Authorization", "Bearer weirt1_x", true},
		{true, "/v1/execute", "Authorization", "", false},
		{true, "/v1/chat/completions", "Authorization", "Bearer dummy", false},
		{true, "/v1/chat/completions", "Authorization", "Bearer weirt1_x", true},
		{true, "/agent/task", "Authorization", "Bearer dummy", true},
		{true, "/api/agent/task", "Authorization", "Bearer dummy", true},
		{true, "/api/agent/task", "Authorization", "", false},
		{true, schemas.RouteGit + "/a.git/info/refs", "Authorization", "Basic eDp5", true},
		{true, schemas.RouteAgentAPI, "Authorization", "", false},
		{false, schemas.RoutePassthrough + "t/x", "X-Api-Key", "weir1_x", true},
		{false, schemas.RoutePassthrough + "t/x", "X-Api-Key", "", false},
		{false, "/v1/execute", "X-Api-Key", "weir1_x", false},
	} {
		th := &middleware{EngineConfig: EngineConfig{Local: tc.open}}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, tc.path, http.NoBody)
		if tc.token != "" {
			r.Header.Set(tc.header, tc.token)
		}
		require.Equal(t, tc.want, th.showsToken(r), tc)
	}
}

func TestThrottledPeersAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	th := &middleware{EngineConfig: EngineConfig{Now: func() time.Time { return now }}, peers: map[netip.Prefix]*rate.Limiter{}}
	peer := func(i int) netip.Prefix { return wire.Peer(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})) }
	for i := range throttledPeers + 10 {
		th.countWrong(peer(i))
	}
	require.Len(t, th.peers, throttledPeers)
	now = now.Add(time.Hour)
	th.countWrong(peer(throttledPeers))
	require.Len(t, th.peers, 1, "those without a recent wrong token are forgotten")
}

func TestLongTarget(t *testing.T) {
	t.Parallel()
	now := time.Now()
	e := guarded(&now)
	for size, want := range map[int]int{wire.MaxTarget: http.StatusOK, wire.MaxTarget + 1: http.StatusRequestURITooLong} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x?"+strings.Repeat("a", size-3), http.NoBody)
		r.Header.Set("Authorization", "Bearer good")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		require.Equal(t, want, w.Code)
		require.Equal(t, want != http.StatusOK, strings.Contains(w.Body.String(), `"code":"URI_TOO_LONG"`))
	}
}

// good holds for one token.
func good(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer good" }

func TestLocal(t *testing.T) {
	t.Parallel()
	engine := NewEngine(EngineConfig{Local: true, Known: good})
	engine.GET("/x", func(c *gin.Context) { c.Status(http.StatusNoContent) })
	for _, tt := range []struct {
		host, origin, site, token string
		want                      bool
	}{
		{host: "localhost", want: true},
		{host: "LOCALHOST:8092", want: true},
		{host: "127.0.0.1:8092", want: true},
		{host: "127.9.9.9", want: true},
		{host: "[::1]:8092", want: true},
		{host: "[::1]", want: true},
		{host: "localhost:8092", origin: "http://localhost:3000", want: true},
		{host: "localhost:8092", origin: "http://[::1]:3000", want: true},
		{host: "attacker.example:8092"},
		{host: "localhost.attacker.example"},
		{host: "10.0.0.1:8092"},
		{host: ""},
		{host: "localhost:8092", origin: "https://attacker.example"},
		{host: "localhost:8092", origin: "null"},
		{host: "localhost:8092", site: "none", want: true},
		{host: "localhost:8092", site: "same-origin", want: true},
		{host: "localhost:8092", site: "same-site", want: true},
		{host: "localhost:8092", site: "cross-site"},
		{host: "host.docker.internal:8092", token: "Bearer good", want: true}, // a container names the machine otherwise
		{host: "host.docker.internal:8092", token: "Bearer bad"},
		{host: "host.docker.internal:8092", token: "Bearer good", origin: "https://attacker.example"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", nil)
		r.Host = tt.host
		for name, value := range map[string]string{"Origin": tt.origin, "Sec-Fetch-Site": tt.site, "Authorization": tt.token} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, r)
		want := map[bool]int{true: http.StatusNoContent, false: http.StatusForbidden}[tt.want]
		require.Equal(t, want, w.Code, tt)
	}
}

// TestEachPieceHasItsTime: a large body may take as long as it needs while it flows.
func TestEachPieceHasItsTime(t *testing.T) {
	t.Parallel()
	times := 0
	in := &arriving{from: bytes.NewReader(make([]byte, 3*spoolPiece+1)), limit: 4 * spoolPiece, more: func() { times++ }}
	n, err := io.Copy(io.Discard, in)
	require.NoError(t, err)
	require.EqualValues(t, 3*spoolPiece+1, n)
	require.Equal(t, 3, times)
}
