// Package policy explains and reloads the policy, and takes what operators decide about the
// calls that it permits.
package policy

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"weir/ingress"
	"weir/ingress/executor"
	"weir/internal/fault"
	"weir/schemas"
)

// Policies explains the policy in force and puts a changed one in force.
type Policies interface {
	// Explain decides about a call that is not made. Only are the entries that
	// the caller may use; empty: all.
	Explain(call schemas.HTTPCall, only []string) schemas.Explanation
	// Reload returns when the policy is in force. Its errors are public ones.
	Reload(ctx context.Context) (schemas.Reload, error)
	// ReloadAll reloads the policy of every node on the log, and reports each.
	ReloadAll(ctx context.Context) (schemas.Reload, error)
	// Entries are the names of the policy in force that an operation may be about.
	Entries() []string
}

type handlers struct {
	server     *ingress.Server
	policies   Policies
	operations Operations
}

// Surface are the routes that explain and reload the policy, and hold calls back.
func Surface(s *ingress.Server, p Policies, o Operations) ingress.Surface {
	h := handlers{s, p, o}
	return ingress.Surface{Name: "policy", Routes: []ingress.Route{
		ingress.Post("/v1/policy/explain", h.explain, schemas.ScopeActionsRead),
		ingress.Post("/v1/policy/reload", h.reload, schemas.ScopeAdmin),
		ingress.Post(schemas.RouteOperationsPause, h.order(schemas.OperationPause), schemas.ScopeAdmin),
		ingress.Post(schemas.RouteOperationsPin, h.order(schemas.OperationPin), schemas.ScopeAdmin),
		ingress.Post(schemas.RouteOperationsResume, h.lift(schemas.OperationPause), schemas.ScopeAdmin),
		ingress.Post(schemas.RouteOperationsUnpin, h.lift(schemas.OperationPin), schemas.ScopeAdmin),
	}}
}

func (h handlers) explain(c *gin.Context) error {
	var req schemas.ExplainRequest
	if err := h.server.Decode(c, &req); err != nil {
		return err
	}
	if req.URL == "" {
		return fault.New(schemas.ValidationError, "at /url: is missing; name the target of the call")
	}
	call, err := executor.Asked(req)
	if err != nil {
		return err
	}
	ingress.WriteJSON(c, http.StatusOK, h.policies.Explain(call, ingress.Caller(c).Entries))
	return nil
}

func (h handlers) reload(c *gin.Context) error {
	// The policy is the node's, and so every tenant's.
	if err := fault.Operator(ingress.Caller(c).Tenant, "reload the policy"); err != nil {
		return err
	}
	var req schemas.ReloadRequest
	if err := h.server.ReadMaybe(c, &req); err != nil {
		return err
	}
	reload := h.policies.Reload
	if req.All {
		reload = h.policies.ReloadAll
	}
	done, err := reload(c.Request.Context())
	if err != nil {
		return err
	}
	ingress.WriteJSON(c, http.StatusOK, done)
	return nil
}
