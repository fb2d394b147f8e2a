package egress

import (
	"net/http"

	"weir/egress/index"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/schemas"
)

// Lists are the routes that the index answers. Without one they are not served.
func (s *Server) Lists(x *index.Index) Surface {
	return Surface{Name: "actions", Absent: x == nil, Routes: Routes(
		s.listed("/v1/actions", x.Serve),
		s.listed("/v1/stats", x.ServeStats),
		s.listed("/v1/usage", x.ServeUsage),
	)}
}

// listed serves the figures of a tenant. An admin of the operator's tenant may name another tenant,
// or all.
func (s *Server) listed(path string, serve func(w http.ResponseWriter, r *http.Request, tenant string)) []Route {
	return s.Read(path, func(r *Request) error {
		tenant, err := tenantOf(r.Request, r.Reader)
		if err == nil {
			serve(r.Writer, r.Request, tenant)
		}
		return err
	}, schemas.ScopeActionsRead)
}

// tenantOf is the tenant whose actions are requested; empty: all tenants.
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
