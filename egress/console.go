package egress

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"weir/egress/console"
	"weir/egress/stream"
	"weir/internal/problem"
	"weir/schemas"
)

// mountConsole serves the console's pages, which hold nothing of anybody, and says to them
// for whom they work.
func (e *Room) mountConsole(engine *gin.Engine) {
	if e.cfg.Session == nil {
		return
	}
	pages := console.New()
	// One redirect of our own: people leave the slash out.
	read(engine, "/console", func(c *gin.Context) {
		c.Writer.Header().Set("Location", schemas.RouteConsole)
		c.Writer.WriteHeader(http.StatusPermanentRedirect)
		c.Writer.WriteHeaderNow()
	})
	read(engine, schemas.RouteConsole, func(c *gin.Context) { pages.Serve(c.Writer, c.Request, console.Index) })
	read(engine, schemas.RouteConsole+"assets/:name", func(c *gin.Context) {
		if !pages.Serve(c.Writer, c.Request, "assets/"+c.Param("name")) {
			absent(c)
		}
	})
	read(engine, schemas.RouteConsoleSession, func(c *gin.Context) {
		s, err := e.cfg.Session(c.Request)
		if err != nil {
			problem.Write(c.Writer, c.Request, err)
			return
		}
		stream.WriteJSON(c.Writer, c.Request, http.StatusOK, s)
	})
}
