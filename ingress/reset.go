package ingress

import (
	"cmp"

	"github.com/gin-gonic/gin"

	"weir/ingress/accept"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

// resetRules stores the one write that needs no etag: it gives up a rule set that
// nobody can read, the asker's own. The worker refuses it for a set that can be
// read. It is served where the agent API is off too: without it nothing goes out.
// An Idempotency-Key is the write's request_id: the same again joins the first, as
// with every write of rules.
func (in *Room) resetRules(c *gin.Context) {
	key, err := accept.Key(c.Request.Header.Values("Idempotency-Key"))
	id := cmp.Or(key, problem.RequestID(c.Request.Context()))
	c.Request = c.Request.WithContext(problem.WithAgent(c.Request.Context(), id, schemas.OpRulesReset))
	var who Identity
	if err == nil {
		who, err = in.cfg.Authenticate(c.Request)
		c.Set(keyTenant, who.Tenant)
	}
	if err == nil {
		err = cmp.Or(holds(who, schemas.ScopeAdmin), unlimited(who))
	}
	if err == nil {
		err = in.readNothing(c.Writer, c.Request)
	}
	var payload []byte
	if err == nil {
		payload, err = ledger.Encode(schemas.RuleOrder{Operation: schemas.OpRulesReset, RequestID: id, Caller: caller(who)})
	}
	if err != nil {
		in.fail(c, err)
		return
	}
	var name accept.Name
	if key != "" {
		name = accept.Derive(accept.PrefixRules, schemas.IDRequest, who.Tenant, schemas.RouteRulesReset, key, caller(who))
	}
	in.submit(c, accept.Request{Name: name, Tenant: who.Tenant, Kind: schemas.KindRule, Payload: payload, Principal: who.ID}, false)
}
