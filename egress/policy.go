package egress

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"weir/egress/stream"
	"weir/schemas"
)

// mountPolicy shows the policy in force. Of what its entries add to a call it
// has the names alone, and no secret.
func (e *Room) mountPolicy(engine *gin.Engine) {
	if e.cfg.Policy == nil {
		return
	}
	read(engine, "/v1/policy", e.scoped(schemas.ScopeActionsRead, func(w http.ResponseWriter, r *http.Request, _, _ string) {
		stream.WriteJSON(w, r, http.StatusOK, e.cfg.Policy())
	}))
}
