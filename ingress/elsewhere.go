package ingress

import (
	"github.com/gin-gonic/gin"

	"weir/ingress/actions"
	"weir/ingress/git"
	"weir/ingress/tasks"
	"weir/internal/fault"
	"weir/schemas"
)

// Routes are those of the room, by what they are mounted with.
func Routes() gin.RoutesInfo {
	e := gin.New()
	(&Room{redriver: &actions.Redriver{}, cfg: Config{
		Previewer: struct{ Previewer }{}, Policies: struct{ Policies }{}, Operations: struct{ Operations }{}, Issuer: struct{ Issuer }{}, Sessions: struct{ Sessions }{},
		Git: &git.Config{}, Tasks: &tasks.Desk{}, Chat: &ChatConfig{},
	}}).Mount(e)
	return e.Routes()
}

// Elsewhere mounts those of some routes that an engine has nothing at: nodes of another role
// serve them. Whoever asks this one is told which, in the words of the route's surface.
// Metrics may be nil.
func Elsewhere(e *gin.Engine, routes gin.RoutesInfo, metrics Metrics, role string) {
	if metrics == nil {
		metrics = silent{}
	}
	here := map[[2]string]bool{}
	for _, r := range e.Routes() {
		here[[2]string{r.Method, r.Path}] = true
	}
	for _, r := range routes {
		if here[[2]string{r.Method, r.Path}] {
			continue
		}
		e.Handle(r.Method, r.Path, func(c *gin.Context) {
			inWords(c)
			fail(c, metrics, fault.New(schemas.Misdirected, "this node does not serve this: ask "+role))
		})
	}
}

// inWords has a request that no handler of its route will see answered in the words of its
// route, where its path alone does not do that.
func inWords(c *gin.Context) {
	if c.Request.URL.Path == routeExecute {
		c.Set(keyDialect, dialectExecutor)
	}
}
