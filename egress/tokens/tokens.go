// Package tokens lists tokens.
package tokens

import (
	"context"
	"net/http"
	"net/url"

	"weir/egress"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/schemas"
)

// List lists a tenant's tokens, a page at a time: cursor is the Next of the page before, or
// empty.
type List func(ctx context.Context, tenant, cursor string, limit int) (schemas.Page[schemas.Token], error)

// Surface is the route that lists the tokens of the caller's tenant. An operator may name
// another.
func Surface(s *egress.Server, list List) egress.Surface {
	return egress.Surface{Name: "tokens", Routes: s.Read("/v1/tokens", func(r *egress.Request) error {
		q := r.Request.URL.Query()
		if err := stream.Only(q, "tenant", "limit", "cursor"); err != nil {
			return err
		}
		tenant, err := tenantParam(q, r.Reader.Tenant)
		if err != nil {
			return err
		}
		cursor, err := tokenCursor(q)
		if err != nil {
			return err
		}
		limit, err := stream.Limit(q, 100)
		if err != nil {
			return err
		}
		page, err := list(r.Request.Context(), tenant, cursor, limit)
		if err == nil {
			stream.WriteJSON(r.Writer, r.Request, http.StatusOK, page)
		}
		return err
	}, schemas.ScopeAdmin)}
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

// tokenCursor reads the cursor of the previous page. Its format is the writer's, but it is never
// empty.
func tokenCursor(q url.Values) (string, error) {
	cursor, ok, err := stream.One(q, "cursor")
	if err == nil && ok && cursor == "" {
		err = stream.Invalid("the parameter cursor must be the next of an earlier page")
	}
	return cursor, err
}
