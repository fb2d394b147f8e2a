package console

import (
	"net/http"
	"path"
	"strings"

	"github.com/gin-gonic/gin"

	"weir/egress"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/schemas"
)

// Surface has the console's pages, which hold no tenant's data, and the route that reports the
// session.
func Surface(session func(r *http.Request) (schemas.ConsoleSession, error)) egress.Surface {
	pages := New()
	return egress.Surface{Name: "console", Routes: egress.Routes(
		addSlash(schemas.RouteConsole),
		egress.Read(schemas.RouteConsole, func(c *gin.Context) error {
			pages.Serve(c.Writer, c.Request, Index)
			return nil
		}),
		egress.Read(schemas.RouteConsole+"assets/:name", func(c *gin.Context) error {
			if !pages.Serve(c.Writer, c.Request, "assets/"+c.Param("name")) {
				return fault.New(schemas.NotFound, "this node does not serve that")
			}
			return nil
		}),
		egress.Read(schemas.RouteConsoleSession, func(c *gin.Context) error {
			s, err := session(c.Request)
			if err == nil {
				stream.WriteJSON(c.Writer, c.Request, http.StatusOK, s)
			}
			return err
		}),
	)}
}

// addSlash redirects a URL without the final slash of a route to the route.
func addSlash(route string) []egress.Route {
	return egress.Read(strings.TrimSuffix(route, "/"), func(c *gin.Context) error {
		c.Writer.Header().Set("Location", route)
		c.Writer.WriteHeader(http.StatusPermanentRedirect)
		c.Writer.WriteHeaderNow()
		return nil
	})
}

// Docs is the surface of the documentation. Like the console's pages, it needs no token: it holds
// no tenant's data.
func Docs(site func() map[string][]byte) egress.Surface {
	pages := Serving(site)
	return egress.Surface{Name: "docs", Routes: egress.Routes(
		addSlash(schemas.RouteDocs),
		egress.Read(schemas.RouteDocs+"*page", func(c *gin.Context) error {
			name := strings.TrimPrefix(c.Param("page"), "/")
			switch {
			case name == "":
				name = Index
			case path.Ext(name) == "":
				name += ".html"
			}
			if !pages.Serve(c.Writer, c.Request, name) {
				return fault.New(schemas.NotFound, "no such page; the pages are listed at "+schemas.RouteDocs)
			}
			return nil
		}),
	)}
}
