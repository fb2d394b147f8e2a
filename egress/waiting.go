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
	show := func(path string, form func(facts schemas.Readiness) any) []Route {
		return Read(path, func(c *gin.Context) error {
			status, facts := ready(c.Writer, c.Request)
			if text, ok := form(facts).(string); ok {
				stream.WriteBody(c.Writer, status, "text/plain; charset=utf-8", []byte(text))
			} else {
				stream.WriteJSON(c.Writer, c.Request, status, form(facts))
			}
			return nil
		})
	}
	text := func(facts schemas.Readiness) any {
		if facts.Ready {
			return "Ready"
		}
		return "Not ready"
	}
	return Routes(
		show("/readyz", func(facts schemas.Readiness) any { return facts }),
		show("/health/ready", func(facts schemas.Readiness) any {
			status := schemas.HealthReady
			if !facts.Ready {
				status = schemas.HealthNotReady
			}
			return schemas.HealthReadiness{Status: status, Readiness: facts}
		}),
		show("/ready", text), show(schemas.RouteAPI+"/ready", text), // for agents, whose base URL ends in the latter
	)
}
