package egress

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/schemas"
)

// mountOperations shows what is held back, and by whom. That is every tenant's, and so an
// operator's to see.
func (e *Room) mountOperations(engine *gin.Engine) {
	if e.cfg.Operations == nil {
		return
	}
	read(engine, schemas.RouteOperations, e.readBy(schemas.ScopeAdmin, func(c *gin.Context, who Reader) {
		if err := fault.Operator(who.Tenant, "see what is held back"); err != nil {
			problem.Write(c.Writer, c.Request, err)
			return
		}
		stream.WriteJSON(c.Writer, c.Request, http.StatusOK, e.cfg.Operations())
	}))
}
