package ingress

import (
	"maps"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"weir/internal/fault"
	"weir/internal/githttp"
	"weir/internal/task"
	"weir/internal/wire"
	"weir/schemas"
)

// One peer may send this many wrong tokens at once, and then this many a second.
const (
	wrongTokens    = 200
	wrongPerSecond = 2
	// throttledPeers bounds the table. Peers beyond it are not throttled.
	throttledPeers = 4096
)

// countWrong notes one wrong token of a peer: an IPv4 address, or the /64 of an IPv6 one.
func (m *middleware) countWrong(peer netip.Prefix) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.Now()
	l := m.peers[peer]
	if l == nil {
		if len(m.peers) >= throttledPeers {
			maps.DeleteFunc(m.peers, func(_ netip.Prefix, l *rate.Limiter) bool { return l.TokensAt(now) >= wrongTokens })
		}
		if len(m.peers) >= throttledPeers {
			return
		}
		l = rate.NewLimiter(wrongPerSecond, wrongTokens)
		m.peers[peer] = l
	}
	l.AllowN(now, 1)
}

// admit refuses a wrong token of a peer that has sent too many. A valid token is still served: behind
// a proxy all callers are one peer, and no caller can lock the others out. Tokens in bodies are not
// read here: while its peer is over the limit, a caller must send its token as a header. A valid peer
// is one whose token counts if it is refused.
func (m *middleware) admit(r *http.Request) (peer netip.Prefix, err error) {
	addr, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !m.showsToken(r) {
		return peer, nil //nolint:nilerr // an address that is none is no peer
	}
	peer = wire.Peer(addr.Addr())
	var wait time.Duration
	m.mu.Lock()
	if l := m.peers[peer]; l != nil {
		wait = time.Duration((1 - l.TokensAt(m.Now())) / wrongPerSecond * float64(time.Second))
	}
	m.mu.Unlock()
	if wait <= 0 || m.Known(r) {
		return peer, nil
	}
	return netip.Prefix{}, &fault.Error{
		Code: schemas.RateLimited, RetryAfter: wait,
		Message: "too many wrong tokens came from this address; check the token, and wait as long as Retry-After says",
	}
}

// showsToken reports whether a request has a token that counts, in its header or maybe in its body.
// An open node requires only the tokens of tasks, agents and git; clients may send it any other.
func (m *middleware) showsToken(r *http.Request) bool {
	if m.Proxy != nil {
		return !m.Local && len(r.Header.Values("Proxy-Authorization")) > 0
	}
	fields, path := r.Header.Values("Authorization"), r.URL.Path
	if m.Local {
		text, _ := githttp.BearerToken(fields, true)
		return task.Is(text) || len(fields) > 0 && (strings.HasPrefix(strings.TrimPrefix(path, schemas.RouteAPI), "/agent/") || strings.HasPrefix(path, schemas.RouteGit+"/"))
	}
	return len(fields) > 0 || strings.HasPrefix(path, schemas.RoutePassthrough) && len(r.Header.Values("X-Api-Key")) > 0 || r.Method == http.MethodPost && (path == schemas.RouteAgentAPI || path == schemas.RouteConsoleSession)
}
