package egress

import (
	"net/http"
	"net/url"

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
	q := r.URL.Query()
	err := stream.Only(q, "tenant", "limit", "cursor")
	if err == nil {
		tenant, err = tenantParam(q, tenant)
	}
	var cursor string
	if err == nil {
		cursor, err = tokenCursor(q)
	}
	var limit int
	if err == nil {
		limit, err = stream.Limit(q, 100)
	}
	var page schemas.Page[schemas.Token]
	if err == nil {
		page, err = e.cfg.Tokens(r.Context(), tenant, cursor, limit)
	}
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	stream.WriteJSON(w, r, http.StatusOK, page)
}

// tenantParam reads whose tokens are asked for.
func tenantParam(q url.Values, own string) (string, error) {
	named, ok, err := stream.One(q, "tenant")
	switch {
	case err != nil || !ok || named == own:
		return own, err
	case !schemas.ValidID(named):
		return own, stream.Invalid("the parameter tenant must be the name of a tenant")
	default:
		return named, fault.Operator(own, "name another tenant")
	}
}

// tokenCursor reads the next of the page before. What it means is for whoever
// wrote it, but it is never empty.
func tokenCursor(q url.Values) (string, error) {
	cursor, ok, err := stream.One(q, "cursor")
	if err == nil && ok && cursor == "" {
		err = stream.Invalid("the parameter cursor must be the next of an earlier page")
	}
	return cursor, err
}
