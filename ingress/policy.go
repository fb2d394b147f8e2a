package ingress

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"weir/ingress/executor"
	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/schemas"
)

// Policies explains the policy in force and puts a changed one in force.
type Policies interface {
	// Explain decides about a call that is not made. Only are the entries that
	// the asker may use; empty: all.
	Explain(call schemas.HTTPCall, only []string) schemas.Explanation
	// Reload returns when the policy is in force. Its errors are public ones.
	Reload(ctx context.Context) (schemas.Reload, error)
	// ReloadAll has every node on the log do so, and says what became of each.
	ReloadAll(ctx context.Context) (schemas.Reload, error)
}

func (in *Room) mountPolicy(e *gin.Engine) {
	if in.cfg.Policies == nil {
		return
	}
	e.POST("/v1/policy/explain", surface("policy", ""), in.authorize(schemas.ScopeActionsRead), in.explain)
	e.POST("/v1/policy/reload", surface("policy", ""), in.authorize(schemas.ScopeAdmin), in.reload)
}

func (in *Room) explain(c *gin.Context) {
	body, err := in.read(c.Writer, c.Request)
	if err != nil {
		in.fail(c, err)
		return
	}
	var req schemas.ExplainRequest
	if err := strict.Decode(body, &req); err != nil {
		in.fail(c, err)
		return
	}
	if req.URL == "" {
		in.fail(c, fault.New(schemas.ValidationError, "at /url: is missing; name the target of the call"))
		return
	}
	writeJSON(c, http.StatusOK, in.cfg.Policies.Explain(executor.Asked(req), identity(c).Entries))
}

func (in *Room) reload(c *gin.Context) {
	// The policy is the node's, and so every tenant's.
	if err := fault.Operator(identity(c).Tenant, "reload the policy"); err != nil {
		in.fail(c, err)
		return
	}
	var req schemas.ReloadRequest
	if err := in.readMaybe(c.Writer, c.Request, &req); err != nil {
		in.fail(c, err)
		return
	}
	reload := in.cfg.Policies.Reload
	if req.All {
		reload = in.cfg.Policies.ReloadAll
	}
	done, err := reload(c.Request.Context())
	if err != nil {
		in.fail(c, err)
		return
	}
	writeJSON(c, http.StatusOK, done)
}
