package egress

import (
	"context"
	"net/url"
	"time"

	"weir/egress/stream"
	"weir/schemas"
)

// Index answers questions about many actions, as index.Index does. The packages of egress do
// not import that one: it links SQLite. The zero value is no index.
type Index struct {
	// Actions, Stats and Usage are lists, figures and the usage of models, as the parameters of a
	// request ask for. Tenant is whose actions are read; empty: all tenants'.
	Actions Answer[schemas.ActionPage]
	Stats   Answer[schemas.Stats]
	Usage   Answer[schemas.Usage]
	// Refs names actions, for lists that show more of an action than the index holds.
	Refs func(ctx context.Context, q stream.Selection) (stream.Selected, error)
}

// Answer is the document for a request's parameters.
type Answer[A any] func(ctx context.Context, q url.Values, tenant string, now time.Time) (A, error)

// Absent reports whether there is no index.
func (x Index) Absent() bool { return x.Refs == nil }

// Lists are the routes that the index answers. Without one they are not served.
func (s *Server) Lists(x Index) Surface {
	return Surface{Name: "actions", Absent: x.Absent(), Routes: Routes(
		listed(s, "/v1/actions", x.Actions),
		listed(s, "/v1/stats", x.Stats),
		listed(s, "/v1/usage", x.Usage),
	)}
}

// listed serves the figures of a tenant. An admin of the operator's tenant may name another tenant,
// or all.
func listed[A any](s *Server, path string, answer Answer[A]) []Route {
	return s.Read(path, JSON(func(r *Request) (any, error) {
		p := stream.Params{Values: r.Request.URL.Query()}
		tenant := p.Tenant(r.Reader.Tenant, r.Reader.Scopes, true)
		if p.Err != nil {
			return nil, p.Err
		}
		return answer(r.Request.Context(), p.Values, tenant, time.Now())
	}), schemas.ScopeActionsRead)
}

// TokenList lists a tenant's tokens, a page at a time: cursor is the Next of the page before, or empty.
type TokenList func(tenant, cursor string, limit int) (schemas.Page[schemas.Token], error)

// Tokens is the route that lists the tokens of the caller's tenant. An operator may name another.
func (s *Server) Tokens(list TokenList) Surface {
	return Surface{Name: "tokens", Routes: s.Read("/v1/tokens", JSON(func(r *Request) (any, error) {
		p := stream.NewParams(r.Request.URL.Query(), "tenant", "limit", "cursor")
		tenant := p.Tenant(r.Reader.Tenant, r.Reader.Scopes, false)
		// The format of a cursor is the writer's, but it is never empty.
		cursor := p.Cursor(func(cursor string) bool { return cursor != "" })
		limit := p.Limit(100)
		if p.Err != nil {
			return nil, p.Err
		}
		return list(tenant, cursor, limit)
	}), schemas.ScopeAdmin)}
}
