package console

import (
	"path"
	"strings"

	"github.com/gin-gonic/gin"

	"weir/egress"
	"weir/internal/fault"
	"weir/schemas"
)

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
