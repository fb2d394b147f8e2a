package egress

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/schemas"
)

// checkTimeout bounds all checks of one /readyz together.
const checkTimeout = 2 * time.Second

// Service is what a node says about itself, whichever rooms it has. Its routes name no
// tenant and show no record.
type Service struct {
	cfg      Config
	draining <-chan struct{} // nil: there is no feed
}

// NewService returns the routes of a node without the room. Of the configuration only what
// the node says of itself counts.
func NewService(cfg Config) (*Service, error) {
	if err := cfg.validateService(); err != nil {
		return nil, err
	}
	return &Service{cfg: cfg.withDefaults()}, nil
}

// Mount registers the routes.
func (e *Service) Mount(engine *gin.Engine) {
	mountAlive(engine)
	mountReady(engine, e.ready)
	read(engine, "/sandbox", func(c *gin.Context) {
		who, err := e.cfg.Reader(c.Request, "")
		if err != nil {
			problem.Write(c.Writer, c.Request, err)
			return
		}
		hosts := e.cfg.AllowedHosts()
		if hosts == nil || len(who.Entries) > 0 { // entries alone leave no hosts
			hosts = []string{}
		}
		stream.WriteJSON(c.Writer, c.Request, http.StatusOK, schemas.Sandbox{AllowedHosts: hosts})
	})
	read(engine, "/metrics", func(c *gin.Context) {
		if e.cfg.Metrics == nil {
			absent(c)
			return
		}
		if err := e.cfg.Allow(c.Request, schemas.ScopeMetricsRead); err != nil {
			hide(c, err)
			return
		}
		e.cfg.Metrics.ServeHTTP(c.Writer, c.Request)
	})
	read(engine, "/openapi.json", func(c *gin.Context) {
		if e.cfg.OpenAPI == nil {
			absent(c)
			return
		}
		stream.WriteBody(c.Writer, http.StatusOK, "application/json", e.cfg.OpenAPI)
	})
}

func absent(c *gin.Context) {
	problem.Write(c.Writer, c.Request, fault.New(schemas.NotFound, "this node does not serve that"))
}

// hide answers who may not see a route as if there were none, unless coming
// back later would help.
func hide(c *gin.Context, err error) {
	if !problem.Of(err).Retryable {
		err = fault.New(schemas.NotFound, "there is nothing at this path")
	}
	problem.Write(c.Writer, c.Request, err)
}

// ready is 200 when every check passes, else 503 and the names of those that do
// not. Why they do not is for the log: an error may hold an address.
func (e *Service) ready(w http.ResponseWriter, r *http.Request) (int, schemas.Readiness) {
	out := schemas.Readiness{
		Ready: true, Role: e.cfg.Role, Durability: e.cfg.Durability, Replicas: e.cfg.Replicas, Partitions: e.cfg.Layout.Partitions,
		PolicyVersion: e.cfg.PolicyVersion(), Checks: map[string]string{},
	}
	ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
	defer cancel()
	fail := func(name string) {
		out.Ready = false
		out.Checks[name] = "failed"
		out.Reasons = append(out.Reasons, name+" is not ready")
	}
	for _, c := range e.cfg.Checks {
		if c.Run(ctx) != nil {
			fail(c.Name)
			continue
		}
		out.Checks[c.Name] = "ok"
	}
	e.following(out.Checks, fail)
	if !out.Ready {
		w.Header().Set("Retry-After", "1")
		return http.StatusServiceUnavailable, out
	}
	return http.StatusOK, out
}

// following checks the feed, if the node has one.
func (e *Service) following(checks map[string]string, fail func(name string)) {
	if e.draining == nil {
		return
	}
	select {
	case <-e.draining:
		fail("feed")
	default:
		checks["feed"] = "ok"
	}
}
