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
// callers ask for. Agents, whose base URL ends in schemas.RouteAPI, ask for a text.
func readiness(ready func(w http.ResponseWriter, r *http.Request) (int, schemas.Readiness)) (routes []Route) {
	for _, path := range []string{"/readyz", "/health/ready", "/ready", schemas.RouteAPI + "/ready"} {
		routes = append(routes, Read(path, func(c *gin.Context) error {
			status, facts := ready(c.Writer, c.Request)
			text, health := "Not ready", schemas.HealthNotReady
			if facts.Ready {
				text, health = "Ready", schemas.HealthReady
			}
			switch path {
			case "/readyz":
				stream.WriteJSON(c.Writer, c.Request, status, facts)
			case "/health/ready":
				stream.WriteJSON(c.Writer, c.Request, status, schemas.HealthReadiness{Status: health, Readiness: facts})
			default:
				stream.WriteBody(c.Writer, status, "text/plain; charset=utf-8", []byte(text))
			}
			return nil
		})...)
	}
	return routes
}
