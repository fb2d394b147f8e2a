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

// mountService registers what a node says about itself. These routes name no
// tenant and show no record.
func (e *Room) mountService(engine *gin.Engine) {
	read(engine, "/healthz", func(c *gin.Context) {
		stream.WriteBody(c.Writer, http.StatusOK, "text/plain; charset=utf-8", []byte("ok"))
	})
	read(engine, "/readyz", func(c *gin.Context) {
		status, out := e.ready(c.Writer, c.Request)
		stream.WriteJSON(c.Writer, c.Request, status, out)
	})
	e.mountHealth(engine)
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

// mountHealth registers the same words for those who look for a status in an
// object: /health says ok for as long as the process answers.
func (e *Room) mountHealth(engine *gin.Engine) {
	read(engine, "/health", func(c *gin.Context) {
		stream.WriteJSON(c.Writer, c.Request, http.StatusOK, schemas.Health{Status: schemas.HealthOK})
	})
	ready := func(c *gin.Context) {
		status, facts := e.ready(c.Writer, c.Request)
		out := schemas.HealthReadiness{Status: schemas.HealthReady, Readiness: facts}
		if !facts.Ready {
			out.Status = schemas.HealthNotReady
		}
		stream.WriteJSON(c.Writer, c.Request, status, out)
	}
	read(engine, "/health/ready", ready)
	read(engine, "/ready", ready)
	read(engine, schemas.RouteAPI+"/ready", ready) // for agents, whose base URL ends in it
}

// ready is 200 when every check passes, else 503 and the names of those that do
// not. Why they do not is for the log: an error may hold an address.
func (e *Room) ready(w http.ResponseWriter, r *http.Request) (int, schemas.Readiness) {
	out := schemas.Readiness{
		Ready: true, Durability: e.cfg.Durability, Partitions: e.cfg.Layout.Partitions,
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
	select {
	case <-e.feed.Draining():
		fail("feed")
	default:
		out.Checks["feed"] = "ok"
	}
	if !out.Ready {
		w.Header().Set("Retry-After", "1")
		return http.StatusServiceUnavailable, out
	}
	return http.StatusOK, out
}
