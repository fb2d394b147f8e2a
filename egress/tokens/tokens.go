// Package tokens lists tokens.
package tokens

import (
	"context"
	"net/http"

	"weir/egress"
	"weir/egress/stream"
	"weir/schemas"
)

// List lists a tenant's tokens, a page at a time: cursor is the Next of the page before, or
// empty.
type List func(ctx context.Context, tenant, cursor string, limit int) (schemas.Page[schemas.Token], error)

// Surface is the route that lists the tokens of the caller's tenant. An operator may name
// another.
func Surface(s *egress.Server, list List) egress.Surface {
	return egress.Surface{Name: "tokens", Routes: s.Read("/v1/tokens", func(r *egress.Request) error {
		p := stream.NewParams(r.Request.URL.Query(), "tenant", "limit", "cursor")
		tenant := p.Tenant(r.Reader.Tenant, r.Reader.Scopes, false)
		// The format of a cursor is the writer's, but it is never empty.
		cursor := p.Cursor(func(cursor string) bool { return cursor != "" })
		limit := p.Limit(100)
		if p.Err != nil {
			return p.Err
		}
		page, err := list(r.Request.Context(), tenant, cursor, limit)
		if err == nil {
			stream.WriteJSON(r.Writer, r.Request, http.StatusOK, page)
		}
		return err
	}, schemas.ScopeAdmin)}
}
