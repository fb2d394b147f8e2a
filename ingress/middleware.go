package ingress

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"weir/internal/fault"
	"weir/internal/problem"
	"weir/internal/telemetry"
	"weir/internal/wire"
	"weir/schemas"
)

// statusClientGone is logged for a disconnected client; it is never sent.
const statusClientGone = 499

// middleware is what every request of an engine passes before the handlers of its route.
type middleware struct {
	EngineConfig

	engine *gin.Engine
	none   Surface // of a request that reaches none

	mu    sync.Mutex
	peers map[netip.Prefix]*rate.Limiter // of wrong tokens
}

// serve gives a request its id, refuses what no route may get, and writes the log line in every case,
// with identifiers and codes only.
func (m *middleware) serve(c *gin.Context) {
	r := c.Request
	if path := r.URL.Path; r.URL.RawPath == "" && (strings.HasSuffix(path, "/") || strings.Contains(path, "//")) && m.tidy(c) {
		return
	}
	start, id := m.Now(), requestID(r.Header)
	c.Set(keyState, &state{engine: m, surface: &m.none})
	r = r.WithContext(problem.WithRequestID(r.Context(), id))
	c.Request = r
	h := c.Writer.Header()
	h.Set("X-Request-ID", id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if len(r.TransferEncoding) > 0 {
		// A chunked body is the last thing on its connection: bytes after it, which a proxy before
		// this server may take for a request, are not read as one.
		h.Set("Connection", "close")
	}
	if r.ContentLength != 0 {
		// Before it answers, net/http reads the rest of a body that the handler has left, so unread
		// bodies need an end too.
		within(c.Writer, bodyTimeout)
	}
	defer func() {
		v := recover()
		cut := v != nil && m.panicked(c, v, id)
		m.log(c, start, id)
		if cut {
			panic(http.ErrAbortHandler)
		}
	}()
	// The token of a request may be in the header in which its surface's clients send it.
	if keys := r.Header["X-Api-Key"]; len(keys) == 1 && keys[0] != "" && len(r.Header.Values("Authorization")) == 0 && m.owner(r).APIKey {
		r.Header.Set("Authorization", "Bearer "+keys[0])
	}
	peer, err := m.admit(r)
	if err == nil {
		err = m.guard(c)
	}
	switch {
	case err != nil:
		Fail(c, err)
	case m.Proxy != nil:
		m.proxy(c)
	default:
		c.Next()
	}
	if status := c.Writer.Status(); peer.IsValid() && (status == http.StatusUnauthorized || status == http.StatusProxyAuthRequired) {
		m.countWrong(peer)
	}
}

// requestID is the caller's X-Request-ID if it may be echoed and logged, else
// a new one.
func requestID(h http.Header) string {
	if given := h.Values("X-Request-ID"); len(given) == 1 && schemas.ValidID(given[0]) {
		return given[0]
	}
	id, err := uuid.NewV7()
	if err != nil {
		return "unknown"
	}
	return id.String()
}

// panicked answers a request whose handler has panicked with a problem that has no trace of the
// cause. cut: its connection must end instead, because an answer that was begun must not pass for a
// whole one, or because the panic only ends an answer.
func (m *middleware) panicked(c *gin.Context, v any, id string) (cut bool) {
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		return true
	}
	m.Logger.LogAttrs(context.Background(), slog.LevelError, "panic", slog.String("err_kind", "panic"),
		slog.String("request_id", id), slog.String("at", telemetry.Panicking()))
	if c.Writer.Written() {
		return true
	}
	c.Writer.Header().Set("Connection", "close")
	Fail(c, fault.New(schemas.Internal, "something went wrong on our side"))
	return false
}

// websocket reports whether a request asks to switch to WebSocket. Other upgrades, such as that to HTTP/2,
// are requests that a server may answer as they are.
func websocket(r *http.Request) bool {
	return slices.ContainsFunc(r.Header.Values("Upgrade"), func(v string) bool {
		return strings.Contains(strings.ToLower(v), "websocket")
	})
}

// errPlain refuses an upgrade to WebSocket before the sender is authenticated and a body is read. Clients
// that know the protocol without WebSocket then use that at once.
func errPlain(c *gin.Context) error {
	h := c.Writer.Header()
	h.Set("Upgrade", "HTTP/1.1")
	h.Set("Connection", "Upgrade")
	return &problem.Error{Problem: schemas.Problem{
		Code: schemas.InvalidRequest, Status: http.StatusUpgradeRequired,
		Detail: "WebSocket is not served here; send the request as plain HTTP, and read the answer as a stream of server-sent events",
	}}
}

// TargetTooLong says what is wrong with a request target over wire.MaxTarget.
const TargetTooLong = "the request target is longer than 8192 bytes; send what is long in the body"

// guard refuses requests that are only meant for a proxy or that two servers could read
// differently: CONNECT, TRACE, targets in absolute form, and the preface of HTTP/2. It also ends
// the connections of those that cannot mean this server.
func (m *middleware) guard(c *gin.Context) error {
	r, h := c.Request, c.Writer.Header()
	bad := wire.Bad(r.Context())
	pathless := r.RequestURI == "" || r.RequestURI[0] != '/'
	if bad != "" || pathless || r.Method == http.MethodConnect {
		h.Set("Connection", "close")
	}
	switch {
	case bad != "":
		return fault.New(schemas.InvalidRequest, "the request is not framed as HTTP/1.1 demands: "+bad)
	case r.Method == http.MethodTrace, r.Method == http.MethodConnect && m.Proxy == nil:
		if h.Get("Allow") == "" {
			h.Set("Allow", "") // RFC 9110: a 405 names its methods, be there none
		}
		text := "this method is never served"
		if r.Method == http.MethodConnect {
			text = "CONNECT is not served at this address" + proxyHint
		}
		return fault.New(schemas.MethodNotAllowed, text)
	case len(r.RequestURI) > wire.MaxTarget:
		return fault.New(schemas.URITooLong, TargetTooLong)
	case m.Proxy != nil:
		return nil
	case r.RequestURI != "" && pathless, r.URL.IsAbs():
		return fault.New(schemas.InvalidRequest, "the request target must be a path: this address is no proxy"+proxyHint)
	case len(r.Header["Upgrade"]) > 0 && websocket(r) && m.owner(r).Fail != nil:
		return errPlain(c)
	case m.Local && foreign(r), m.Local && !loopback(r.Host) && !m.Known(r):
		return fault.New(schemas.Forbidden, "without tokens only this machine may ask: name it localhost or by its loopback address, or send a token")
	default:
		return nil
	}
}

// proxyHint says where the forward proxy is.
const proxyHint = "; run `weir serve --proxy-listen ADDRESS`, and use that address as the proxy"

// proxy serves the request of a forward proxy.
func (m *middleware) proxy(c *gin.Context) {
	stateOf(c).surface = m.Proxy
	c.Status(http.StatusOK) // the router has set the status for a path without a route
	if err := m.Proxy.Routes[0].Handle(c); err != nil {
		Fail(c, err)
	}
	c.Writer.WriteHeaderNow() // without it, the router writes a body of its own
	c.Abort()
}

func (m *middleware) noRoute(c *gin.Context) {
	for i := range m.Surfaces { // of a node that waits for its log, which has no routes yet
		s := &m.Surfaces[i]
		if slices.ContainsFunc(s.Routes, func(r Route) bool { return r.Method == c.Request.Method && r.Path == c.Request.URL.EscapedPath() }) {
			stateOf(c).surface = s
		}
	}
	Fail(c, m.Otherwise)
}

func (m *middleware) noMethod(c *gin.Context) {
	Fail(c, fault.New(schemas.MethodNotAllowed, "this path does not serve this method; Allow names those it does"))
}

// foreign reports whether a request was made by a page of another machine.
func foreign(r *http.Request) bool {
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || !loopback(u.Host)
}

// loopback reports whether an authority names this machine only.
func loopback(authority string) bool {
	host := authority
	if h, _, err := net.SplitHostPort(authority); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
