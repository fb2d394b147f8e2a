// Package policy shows the policy in force and what operators hold back.
package policy

import (
	"net/http"

	"weir/egress"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/schemas"
)

// Surface are the routes that show the policy in force, as far as the reader may use it, and what is
// held back. show has the names alone of what entries add to a call, and no secret, and only shows
// operators where agents and models are.
func Surface(s *egress.Server, show func(only []string, operator bool) schemas.PolicyView, operations func() schemas.OperationsView) egress.Surface {
	return egress.Surface{Name: "policy", Routes: egress.Routes(
		s.Read("/v1/policy", func(r *egress.Request) error {
			if err := stream.Only(r.Request.URL.Query()); err != nil {
				return err
			}
			operator := r.Reader.Tenant == schemas.Operator && schemas.Grants(r.Reader.Scopes, schemas.ScopeAdmin)
			stream.WriteJSON(r.Writer, r.Request, http.StatusOK, show(r.Reader.Entries, operator))
			return nil
		}, schemas.ScopeActionsRead),
		s.Read(schemas.RouteOperations, func(r *egress.Request) error {
			// Held calls concern every tenant, so only an operator may list them.
			if err := fault.Operator(r.Reader.Tenant, "see what is paused or pinned"); err != nil {
				return err
			}
			if err := stream.Only(r.Request.URL.Query()); err != nil {
				return err
			}
			stream.WriteJSON(r.Writer, r.Request, http.StatusOK, operations())
			return nil
		}, schemas.ScopeAdmin),
	)}
}
