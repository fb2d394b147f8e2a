package ingress

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
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

// maxUnknown is how many bytes are read of a request of the agent API whose header does not say
// who sent it.
const maxUnknown = 64 << 10

// agentAPI serves the agent API.
func (in *Room) agentAPI(c *gin.Context) {
	req, who, err := in.askedBy(c)
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

// askedBy reads a request of the agent API and finds out who sent it: by the header, before the
// body is read, or else by the token in the body. Callers that are not known are not told what is
// wrong with the body. Every answer repeats request_id and operation, so the body is read for
// refused callers too, up to maxUnknown.
func (in *Room) askedBy(c *gin.Context) (req schemas.AgentRequest, who Identity, err error) {
	shown := len(c.Request.Header.Values("Authorization")) > 0
	if in.cfg.NoAgentAPI {
		err = disallowed("the agent API is disabled on this node", schemas.DetailAPIDisabled)
	} else {
		who, err = in.cfg.Authenticate(c.Request)
	}
	tenant, bound := c.Request.Context().Value(tenantKey{}).(string)
	limit := in.cfg.MaxBody
	if err != nil && !bound { // what another way brings, over which tokens come in bodies alone, is bounded there
		limit = min(limit, maxUnknown)
	}
	body, wrong := in.readUpTo(c.Writer, c.Request, limit, in.cfg.Limits)
	if wrong == nil {
		req, wrong = rules.Read(body)
		c.Request = c.Request.WithContext(problem.WithAgent(c.Request.Context(), req.RequestID, req.Operation))
	}
	if !shown && unauthorized(err) {
		who, err = in.byBody(c.Request, req.AuthToken, wrong)
	}
	switch {
	case unauthorized(err):
		// Whoever authenticates knows of the header alone, which not every way here has.
		return req, who, &fault.Error{Code: schemas.Unauthorized, Message: "send a token that is in force, as request.auth_token or in one header, Authorization: Bearer" + tooLong(wrong), Cause: err}
	case err != nil:
		return req, who, err
	case bound && tenant != who.Tenant:
		return req, who, fault.New(schemas.Unauthorized, "the token belongs to another tenant than the subject that this was sent to")
	}
	c.Set(keyTenant, who.Tenant)
	if wrong != nil {
		return req, who, wrong
	}
	return req, who, sameToken(c.Request.Header, req.AuthToken)
}

// byBody finds the sender by the token in a body. Refusals of what HTTP says of the body, such as
// its media type, come first.
func (in *Room) byBody(r *http.Request, token string, wrong error) (Identity, error) {
	public, _ := errors.AsType[*fault.Error](wrong)
	if wrong != nil && (public == nil || public.Code != schemas.InvalidRequest && public.Code != schemas.PayloadTooLarge) {
		return Identity{}, wrong
	}
	if token == "" {
		return Identity{}, fault.New(schemas.Unauthorized, "there is no token")
	}
	r = r.WithContext(r.Context())
	r.Header = r.Header.Clone()
	r.Header.Set("Authorization", "Bearer "+token)
	return in.cfg.Authenticate(r)
}

func unauthorized(err error) bool {
	public, ok := errors.AsType[*fault.Error](err)
	return ok && public.Code == schemas.Unauthorized
}

// tooLong completes the refusal of a request in whose body no token was looked for.
func tooLong(wrong error) string {
	if public, ok := errors.AsType[*fault.Error](wrong); ok && public.Code == schemas.PayloadTooLarge {
		return "; a request over " + strconv.Itoa(maxUnknown) + " bytes needs it in the header"
	}
	return ""
}

// sameToken refuses a request whose body and header have different tokens.
func sameToken(h http.Header, token string) error {
	fields := h.Values("Authorization")
	if token == "" || len(fields) == 0 {
		return nil
	}
	scheme, given, _ := strings.Cut(fields[0], " ")
	if len(fields) > 1 || !strings.EqualFold(scheme, "Bearer") || strings.TrimLeft(given, " ") != token {
		return fault.New(schemas.Unauthorized, "auth_token is another one than the Authorization header's; send one of them")
	}
	return nil
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
