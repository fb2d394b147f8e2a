// Package policy shows the policy in force and what operators hold back.
package policy

import (
	"context"

	"weir/egress"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/schemas"
)

// Surface are the routes that show the policy in force, as far as the reader may use it, and what is
// held back. show has the names alone of what entries add to a call, and no secret, and only shows
// operators where agents and models are.
func Surface(s *egress.Server, show func(only []string, operator bool) schemas.PolicyView, operations func() schemas.OperationsView,
	nodes func(ctx context.Context) ([]schemas.NodeReport, error),
) egress.Surface {
	return egress.Surface{Name: "policy", Routes: egress.Routes(
		s.Read("/v1/policy", egress.JSON(func(r *egress.Request) (any, error) {
			if err := stream.NewParams(r.Request.URL.Query()).Err; err != nil {
				return nil, err
			}
			operator := r.Reader.Tenant == schemas.Operator && schemas.Grants(r.Reader.Scopes, schemas.ScopeAdmin)
			return show(r.Reader.Entries, operator), nil
		}), schemas.ScopeActionsRead),
		// Held calls and nodes concern every tenant, so only an operator may list them.
		operator(s, schemas.RouteOperations, "see what is paused or pinned", func(context.Context) (any, error) { return operations(), nil }),
		operator(s, schemas.RouteNodes, "see the nodes", func(ctx context.Context) (any, error) {
			all, err := nodes(ctx)
			return schemas.Page[schemas.NodeReport]{Items: all}, err
		}),
	)}
}

// operator is a route that shows a document to operators only.
func operator(s *egress.Server, route, what string, doc func(ctx context.Context) (any, error)) []egress.Route {
	return s.Read(route, egress.JSON(func(r *egress.Request) (any, error) {
		if err := fault.Operator(r.Reader.Tenant, what); err != nil {
			return nil, err
		}
		if err := stream.NewParams(r.Request.URL.Query()).Err; err != nil {
			return nil, err
		}
		return doc(r.Request.Context())
	}), schemas.ScopeAdmin)
}
