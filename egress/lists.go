package egress

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"weir/egress/index"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/schemas"
)

// mountIndex registers what the index answers.
func (e *Room) mountIndex(engine *gin.Engine) {
	if e.cfg.Index == nil {
		return
	}
	read(engine, "/v1/actions", e.listed(e.cfg.Index.Serve))
	read(engine, "/v1/stats", e.listed(e.cfg.Index.ServeStats))
}

// listed serves what is counted of a tenant. An admin of the operator's may name
// another, or all of them.
func (e *Room) listed(serve func(w http.ResponseWriter, r *http.Request, tenant string)) gin.HandlerFunc {
	return e.readBy(schemas.ScopeActionsRead, func(c *gin.Context, who Reader) {
		tenant, err := tenantOf(c.Request, who)
		if err != nil {
			problem.Write(c.Writer, c.Request, err)
			return
		}
		serve(c.Writer, c.Request, tenant)
	})
}

// tenantOf is whose actions are meant; empty: everybody's.
func tenantOf(r *http.Request, who Reader) (string, error) {
	named, ok, err := stream.One(r.URL.Query(), "tenant")
	if err != nil || !ok || named == who.Tenant {
		return who.Tenant, err
	}
	if named != index.TenantAll && !schemas.ValidID(named) {
		return "", stream.Invalid("the parameter tenant must be the name of a tenant, or * for all")
	}
	if err := fault.Operator(who.Tenant, "name another tenant"); err != nil {
		return "", err
	}
	if err := fault.Scope(who.Scopes, schemas.ScopeAdmin); err != nil {
		return "", err
	}
	if named == index.TenantAll {
		return "", nil
	}
	return named, nil
}
