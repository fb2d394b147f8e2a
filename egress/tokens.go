package egress

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/schemas"
)

func (e *Room) mountTokens(engine *gin.Engine) {
	if e.cfg.Tokens == nil {
		return
	}
	read(engine, "/v1/tokens", e.scoped(schemas.ScopeAdmin, func(w http.ResponseWriter, r *http.Request, tenant, _ string) {
		e.serveTokens(w, r, tenant)
	}))
}

// serveTokens lists the tokens of the caller's tenant. An operator may name
// another.
func (e *Room) serveTokens(w http.ResponseWriter, r *http.Request, tenant string) {
	named, ok, err := stream.One(r.URL.Query(), "tenant")
	switch {
	case err != nil:
	case ok && !schemas.ValidID(named):
		err = stream.Invalid("the parameter tenant must be the name of a tenant")
	case ok && named != tenant && tenant != schemas.Operator:
		err = fault.New(schemas.Forbidden, "only an admin of the tenant "+schemas.Operator+" may name another tenant")
	case ok:
		tenant = named
	}
	var page schemas.Page[schemas.Token]
	if err == nil {
		page.Items, err = e.cfg.Tokens(r.Context(), tenant)
	}
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	stream.WriteJSON(w, r, http.StatusOK, page)
}
