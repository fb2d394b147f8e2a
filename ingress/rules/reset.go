package rules

import (
	"cmp"

	"github.com/gin-gonic/gin"

	"weir/ingress"
	"weir/ingress/accept"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

// reset stores the one write that needs no etag: it discards an unreadable rule set of the caller's
// tenant. The worker refuses it for a readable set. It is served with the agent API off too,
// because calls are blocked until then. An Idempotency-Key is the write's request_id: a repeat
// joins the first, as with every write of rules.
func (h handlers) reset(c *gin.Context) error {
	key, err := accept.Key(c.Request.Header.Values("Idempotency-Key"))
	id := cmp.Or(key, problem.RequestID(c.Request.Context()))
	c.Request = c.Request.WithContext(problem.WithAgent(c.Request.Context(), id, schemas.OpRulesReset))
	var who ingress.Identity
	if err == nil {
		who, err = h.server.Authenticate(c.Request)
		ingress.SetTenant(c, who.Tenant)
	}
	if err == nil {
		err = cmp.Or(holds(who, schemas.ScopeAdmin), unlimited(who))
	}
	if err == nil {
		err = h.server.ReadNothing(c.Writer, c.Request)
	}
	var payload []byte
	if err == nil {
		payload, err = ledger.Encode(schemas.RuleOrder{Operation: schemas.OpRulesReset, RequestID: id, Caller: who.Caller()})
	}
	if err != nil {
		return err
	}
	var name accept.Name
	if key != "" {
		name = accept.Derive(accept.PrefixRules, schemas.IDRequest, who.Tenant, schemas.RouteRulesReset, key, who.Caller())
	}
	return h.server.Submit(c, accept.Request{Name: name, Tenant: who.Tenant, Kind: schemas.KindRule, Payload: payload, Principal: who.ID}, nil)
}
