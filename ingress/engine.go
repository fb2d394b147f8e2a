package ingress

import (
	"cmp"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/gin-gonic/gin"
	"golang.org/x/time/rate"

	"weir/internal/fault"
	"weir/schemas"
)

// EngineConfig of NewEngine.
type EngineConfig struct {
	// Logger writes one line a request; nil: none.
	Logger *slog.Logger
	// Metrics counts refusals; may be nil.
	Metrics Metrics
	// Surfaces are those whose errors requests may get that reach no route, and whose paths are
	// tidied.
	Surfaces []Surface
	// Local refuses requests that name another host than this machine, or come from a page of
	// another one. In open mode, only the loopback listener is between Weir and the web pages that
	// a browser on this machine shows: a page may have its own name resolve to 127.0.0.1.
	Local bool
	// Known reports whether a request has a valid token of any kind. Local serves such a request
	// under any Host: a container calls the machine host.docker.internal. Throttling skips it. nil:
	// no request has one.
	Known func(r *http.Request) bool
	// Proxy is the surface of a forward proxy, whose one route gets every request, whatever its method
	// and target. Tokens are in Proxy-Authorization. nil: the engine is no proxy.
	Proxy *Surface
	// Otherwise is the error for a request that reaches no route; default: not found.
	Otherwise error
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// NewEngine returns the engine that all routes are mounted on. It serves a path exactly as it was
// sent, without redirects to a cleaner one. The caller's address is the connection's, whatever a
// header says. Unknown routes and methods get problems, and gin itself prints nothing.
func NewEngine(cfg EngineConfig) *gin.Engine {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Metrics == nil {
		cfg.Metrics = noMetrics{}
	}
	if cfg.Known == nil {
		cfg.Known = func(*http.Request) bool { return false }
	}
	if cfg.Otherwise == nil {
		cfg.Otherwise = fault.New(schemas.NotFound, "there is nothing at this path")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if gin.Mode() == gin.DebugMode { // gin prints every route to stdout there
		gin.SetMode(gin.ReleaseMode)
	}
	e := gin.New()
	e.RedirectTrailingSlash = false
	e.RedirectFixedPath = false
	e.RemoveExtraSlash = false
	e.HandleMethodNotAllowed = true
	e.ForwardedByClientIP = false
	_ = e.SetTrustedProxies(nil) // fails on a malformed address only
	// Routes match the path as it was sent: an encoded slash stays inside its
	// segment, and a parameter is decoded once, after matching.
	e.UseRawPath = true
	e.UnescapePathValues = true
	m := &middleware{EngineConfig: cfg, engine: e, peers: map[netip.Prefix]*rate.Limiter{}}
	e.Use(m.serve)
	e.NoRoute(m.noRoute)
	e.NoMethod(m.noMethod)
	return e
}
