package ingress

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"weir/ingress/accept"
	"weir/ingress/rules"
	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

func (in *Room) mountRules(e *gin.Engine) {
	e.POST(schemas.RouteAgentAPI, surface("rules", dialectRules), in.agentAPI)
	if in.cfg.Previewer != nil {
		e.POST("/v1/rules/preview", surface("rules", ""), in.authorize(rules.ReadScopes()...), in.preview)
	}
	// What an action was answered is for those who may see actions.
	e.POST("/v1/rules/record", surface("rules", ""), in.authorize(schemas.ScopeActionsRead), in.record)
	e.POST(schemas.RouteRulesReset, surface("rules", dialectRules), in.resetRules)
}

type tenantKey struct{}

// ForTenant binds a request of the agent API to a tenant: a token of another one
// is refused. It is for requests that come by a way which names one.
func ForTenant(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

// agentAPI serves the agent API. The body is read before anybody is asked who they
// are: it may hold the token, and every answer repeats its request_id.
func (in *Room) agentAPI(c *gin.Context) {
	body, err := in.read(c.Writer, c.Request)
	var req schemas.AgentRequest
	if err == nil {
		req, err = rules.Read(body)
		c.Request = c.Request.WithContext(problem.WithAgent(c.Request.Context(), req.RequestID, req.Operation))
	}
	var who Identity
	if err == nil {
		who, err = in.agent(c, req)
	}
	if err == nil {
		err = rules.Known(req.Operation)
	}
	if err == nil {
		err = may(who, req.Operation)
	}
	if err != nil {
		in.fail(c, err)
		return
	}
	if !rules.Reads(req.Operation) {
		in.writeRules(c, who, req)
		return
	}
	if err := rules.CheckRead(req); err != nil {
		in.fail(c, err)
		return
	}
	req.AuthToken = ""
	in.responder.ReadRules(c.Writer, c.Request, who.Tenant, req)
}

// agent asks who sent a request of the agent API.
func (in *Room) agent(c *gin.Context, req schemas.AgentRequest) (Identity, error) {
	if in.cfg.NoAgentAPI {
		return Identity{}, disallowed("the agent API is disabled on this node", schemas.DetailAPIDisabled)
	}
	r, err := bearing(c.Request, req.AuthToken)
	if err != nil {
		return Identity{}, err
	}
	who, err := in.cfg.Authenticate(r)
	if public, ok := errors.AsType[*fault.Error](err); ok && public.Code == schemas.Unauthorized {
		// Whoever authenticates knows of the header alone, which not every way here has.
		err = &fault.Error{Code: schemas.Unauthorized, Message: "send a token that is in force, as request.auth_token or in one header, Authorization: Bearer", Cause: err}
	}
	if err != nil {
		return Identity{}, err
	}
	if tenant, bound := c.Request.Context().Value(tenantKey{}).(string); bound && tenant != who.Tenant {
		return Identity{}, fault.New(schemas.Unauthorized, "the token belongs to another tenant than the subject that this was sent to")
	}
	c.Set(keyTenant, who.Tenant)
	return who, nil
}

// bearing is a request as if its Authorization header had the token of its body.
func bearing(r *http.Request, token string) (*http.Request, error) {
	if token == "" {
		return r, nil
	}
	if fields := r.Header.Values("Authorization"); len(fields) > 0 {
		scheme, given, _ := strings.Cut(fields[0], " ")
		if len(fields) > 1 || !strings.EqualFold(scheme, "Bearer") || strings.TrimLeft(given, " ") != token {
			return nil, fault.New(schemas.Unauthorized, "auth_token is another one than the Authorization header's; send one of them")
		}
		return r, nil
	}
	out := r.WithContext(r.Context())
	out.Header = r.Header.Clone()
	out.Header.Set("Authorization", "Bearer "+token)
	return out, nil
}

// may refuses an operation that somebody's token is not for. What one with some
// entries writes would steer the calls of others.
func may(who Identity, operation string) error {
	scopes := rules.Scopes(operation)
	if len(scopes) == 0 {
		return nil
	}
	if err := holds(who, scopes...); err != nil || rules.Reads(operation) {
		return err
	}
	return unlimited(who)
}

// holds refuses somebody whose token has none of the scopes.
func holds(who Identity, scopes ...string) error {
	if fault.Scope(who.Scopes, scopes...) != nil {
		return disallowed("the token lacks the scope "+strings.Join(scopes, " or "), schemas.DetailScopeRequired)
	}
	return nil
}

// unlimited refuses somebody whose token is for some entries alone.
func unlimited(who Identity) error {
	if len(who.Entries) > 0 {
		return disallowed("a token that is limited to entries of the policy may not write rules", schemas.DetailScopeRequired)
	}
	return nil
}

// disallowed is the refusal of a caller who is known.
func disallowed(why, word string) error {
	return &problem.Error{
		Problem: schemas.Problem{Code: schemas.Unauthorized, Status: http.StatusForbidden, Detail: why}, Word: word,
	}
}

// caller is who writes, on the record: the id of the token, or a word where there
// are none.
func caller(who Identity) string { return cmp.Or(who.ID, "open") }

// writeRules stores a write. Its id is made of all that says what it is, so that
// the same request joins it, and only that.
func (in *Room) writeRules(c *gin.Context, who Identity, req schemas.AgentRequest) {
	caller := caller(who)
	var payload []byte
	var fingerprint string
	order, err := rules.Order(req, caller)
	if err == nil {
		payload, err = ledger.Encode(order)
	}
	if err == nil {
		fingerprint, err = strict.Fingerprint(payload)
	}
	if err != nil {
		in.fail(c, err)
		return
	}
	name := accept.Derive(accept.PrefixRules, schemas.IDRequest, who.Tenant, schemas.RouteAgentAPI, req.RequestID, caller, fingerprint, in.cfg.PolicyVersion())
	in.submit(c, accept.Request{
		Name: name, Tenant: who.Tenant, Kind: schemas.KindRule,
		Payload: payload, Principal: who.ID,
	}, false)
}
