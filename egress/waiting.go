package egress

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"weir/egress/stream"
	"weir/schemas"
)

// Waiting has the reports of a node that does not have its log yet: that it is alive, and why it is
// not ready. state is called for each request.
func Waiting(state func() schemas.Readiness) Surface {
	return Surface{Name: "service", Routes: Routes(alive(), readiness(func(w http.ResponseWriter, _ *http.Request) (int, schemas.Readiness) {
		w.Header().Set("Retry-After", "1")
		return http.StatusServiceUnavailable, state()
	}))}
}

// alive has the routes that answer as long as the process runs.
func alive() []Route {
	return Routes(
		Read("/healthz", func(c *gin.Context) error {
			stream.WriteBody(c.Writer, http.StatusOK, "text/plain; charset=utf-8", []byte("ok"))
			return nil
		}),
		Read("/health", func(c *gin.Context) error {
			stream.WriteJSON(c.Writer, c.Request, http.StatusOK, schemas.Health{Status: schemas.HealthOK})
			return nil
		}),
	)
}

// readiness are the routes that report whether the node can do its work, in the three forms that
// callers ask for.
func readiness(ready func(w http.ResponseWriter, r *http.Request) (int, schemas.Readiness)) []Route {
	text := func(c *gin.Context) error {
		status, facts := ready(c.Writer, c.Request)
		text := "Ready"
		if !facts.Ready {
			text = "Not ready"
		}
		stream.WriteBody(c.Writer, status, "text/plain; charset=utf-8", []byte(text))
		return nil
	}
	return Routes(
		Read("/readyz", func(c *gin.Context) error {
			status, out := ready(c.Writer, c.Request)
			stream.WriteJSON(c.Writer, c.Request, status, out)
			return nil
		}),
		Read("/health/ready", func(c *gin.Context) error {
			status, facts := ready(c.Writer, c.Request)
			out := schemas.HealthReadiness{Status: schemas.HealthReady, Readiness: facts}
			if !facts.Ready {
				out.Status = schemas.HealthNotReady
			}
			stream.WriteJSON(c.Writer, c.Request, status, out)
			return nil
		}),
		Read("/ready", text), Read(schemas.RouteAPI+"/ready", text), // for agents, whose base URL ends in the latter
	)
}
