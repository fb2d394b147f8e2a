package egress

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"weir/egress/stream"
	"weir/schemas"
)

// mountPolicy shows the policy in force, as far as the reader may use it. Of what
// its entries add to a call it has the names alone, and no secret. Only operators see where
// agents and models are.
func (e *Room) mountPolicy(engine *gin.Engine) {
	if e.cfg.Policy == nil {
		return
	}
	read(engine, "/v1/policy", e.readBy(schemas.ScopeActionsRead, func(c *gin.Context, who Reader) {
		operator := who.Tenant == schemas.Operator && schemas.Grants(who.Scopes, schemas.ScopeAdmin)
		stream.WriteJSON(c.Writer, c.Request, http.StatusOK, e.cfg.Policy(who.Entries, operator))
	}))
}
