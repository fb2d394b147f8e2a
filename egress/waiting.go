package egress

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"weir/egress/stream"
	"weir/schemas"
)

// MountWaiting registers what a node says about itself before it has its log: that it is
// alive, and why it is not ready. State is asked for each time.
func MountWaiting(engine *gin.Engine, state func() schemas.Readiness) {
	mountAlive(engine)
	mountReady(engine, func(w http.ResponseWriter, _ *http.Request) (int, schemas.Readiness) {
		w.Header().Set("Retry-After", "1")
		return http.StatusServiceUnavailable, state()
	})
}

// mountAlive registers what answers for as long as the process does.
func mountAlive(engine *gin.Engine) {
	read(engine, "/healthz", func(c *gin.Context) {
		stream.WriteBody(c.Writer, http.StatusOK, "text/plain; charset=utf-8", []byte("ok"))
	})
	read(engine, "/health", func(c *gin.Context) {
		stream.WriteJSON(c.Writer, c.Request, http.StatusOK, schemas.Health{Status: schemas.HealthOK})
	})
}

// mountReady registers whether the node can do its work, in the three forms that are asked for.
func mountReady(engine *gin.Engine, ready func(w http.ResponseWriter, r *http.Request) (int, schemas.Readiness)) {
	read(engine, "/readyz", func(c *gin.Context) {
		status, out := ready(c.Writer, c.Request)
		stream.WriteJSON(c.Writer, c.Request, status, out)
	})
	inWords := func(c *gin.Context) {
		status, facts := ready(c.Writer, c.Request)
		out := schemas.HealthReadiness{Status: schemas.HealthReady, Readiness: facts}
		if !facts.Ready {
			out.Status = schemas.HealthNotReady
		}
		stream.WriteJSON(c.Writer, c.Request, status, out)
	}
	read(engine, "/health/ready", inWords)
	for _, path := range []string{"/ready", schemas.RouteAPI + "/ready"} { // for agents, whose base URL ends in the latter
		read(engine, path, func(c *gin.Context) {
			status, facts := ready(c.Writer, c.Request)
			text := "Ready"
			if !facts.Ready {
				text = "Not ready"
			}
			stream.WriteBody(c.Writer, status, "text/plain; charset=utf-8", []byte(text))
		})
	}
}
