package rules

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"weir/ingress"
	"weir/ingress/accept"
	"weir/ingress/grant"
	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

// Config of the surface. Read and Record are egress's, and required.
type Config struct {
	// AgentAPI: the operations of POST /v1/agent-api are served, and not refused.
	AgentAPI bool
	// PolicyVersion is the version of the policy in force: the same write of the
	// rules under another policy is another one. Default: empty.
	PolicyVersion func() string
	// Preview asks the traffic rules of the caller's tenant, and then the policy as far as the caller
	// may use it, about a call that is not made. Its errors are public ones. Required.
	Preview func(ctx context.Context, who grant.Caller, q Question) (schemas.Preview, error)
	// Read answers an operation of the agent API that changes nothing. Its
	// arguments have the types that they should.
	Read func(w http.ResponseWriter, r *http.Request, tenant string, req schemas.AgentRequest)
	// Record answers with rules that repeat the answers which an action of the tenant
	// received. Principal is the id of the token that asks.
	Record func(w http.ResponseWriter, r *http.Request, tenant, principal string, req schemas.RecordRequest)
}

type handlers struct {
	Config

	server *ingress.Server
}

// Surfaces are the agent API, with errors in its envelope, and the routes about rules whose
// errors are problems.
func Surfaces(s *ingress.Server, cfg Config) []ingress.Surface {
	if cfg.PolicyVersion == nil {
		cfg.PolicyVersion = func() string { return "" }
	}
	h := handlers{cfg, s}
	return []ingress.Surface{{
		Name: "rules", Kind: schemas.KindRule,
		Fail: ingress.Written(problem.WriteAgent), Owns: ingress.Paths(schemas.RouteAgentAPI, schemas.RouteRulesReset),
		Routes:      []ingress.Route{ingress.Post(schemas.RouteAgentAPI, h.agentAPI), ingress.Post(schemas.RouteRulesReset, h.reset)},
		NotRedriven: "a write of the rules is not redriven; read the rules, and send it anew with their etag",
		Canceled:    canceled,
	}, {
		Name: "rules",
		Routes: []ingress.Route{
			ingress.Post("/v1/rules/preview", h.preview, ReadScopes()...),
			// What an action was answered is for those who may see actions.
			ingress.Post("/v1/rules/record", h.record, schemas.ScopeActionsRead),
		},
	}}
}

func canceled(payload json.RawMessage, message string) (json.RawMessage, error) {
	var order schemas.RuleOrder
	_ = json.Unmarshal(payload, &order) // where it lies aside, the answer repeats what its request said
	return ledger.Encode(schemas.RuleResult{Operation: order.Operation, RequestID: order.RequestID, Error: &schemas.AgentError{
		Code: schemas.InternalError, Message: message, Detail: string(schemas.Canceled),
	}})
}

type tenantKey struct{}

// ForTenant binds a request of the agent API to a tenant: a token of another tenant is refused. It
// is for transports that name a tenant.
func ForTenant(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

// maxUnknown is how many bytes are read of a request of the agent API whose header does not say
// who sent it.
const maxUnknown = 64 << 10

// agentAPI serves the agent API.
func (h handlers) agentAPI(c *gin.Context) error {
	req, who, err := h.askedBy(c)
	if err == nil {
		err = Known(req.Operation)
	}
	if err == nil {
		err = may(who, req.Operation)
	}
	if err != nil {
		return err
	}
	if !Reads(req.Operation) {
		return h.write(c, who, req)
	}
	if err := CheckRead(req); err != nil {
		return err
	}
	req.AuthToken = ""
	h.Read(c.Writer, c.Request, who.Tenant, req)
	return nil
}

// askedBy reads a request of the agent API and finds out who sent it: by the header, before the
// body is read, or else by the token in the body. Callers that are not known are not told what is
// wrong with the body. Every answer repeats request_id and operation, so the body is read for
// refused callers too, up to maxUnknown.
func (h handlers) askedBy(c *gin.Context) (req schemas.AgentRequest, who ingress.Identity, err error) {
	shown := len(c.Request.Header.Values("Authorization")) > 0
	if !h.AgentAPI {
		err = disallowed("the agent API is disabled on this node", schemas.DetailAPIDisabled)
	} else {
		who, err = h.server.Authenticate(c.Request)
	}
	tenant, bound := c.Request.Context().Value(tenantKey{}).(string)
	limit := h.server.MaxBody()
	if err != nil && !bound { // what another way brings, over which tokens come in bodies alone, is bounded there
		limit = min(limit, maxUnknown)
	}
	body, wrong := h.server.ReadUpTo(c, limit, strict.Limits{})
	if wrong == nil {
		req, wrong = Read(body)
		c.Request = c.Request.WithContext(problem.WithAgent(c.Request.Context(), req.RequestID, req.Operation))
	}
	if !shown && unauthorized(err) {
		who, err = h.byBody(c.Request, req.AuthToken, wrong)
	}
	switch {
	case unauthorized(err):
		// The caller's authentication only knows the header, which not every transport has.
		return req, who, &fault.Error{Code: schemas.Unauthorized, Message: "send a token that is in force, as request.auth_token or in one header, Authorization: Bearer" + tooLong(wrong), Cause: err}
	case err != nil:
		return req, who, err
	case bound && tenant != who.Tenant:
		return req, who, fault.New(schemas.Unauthorized, "the token belongs to another tenant than the subject that this was sent to")
	}
	ingress.SetTenant(c, who.Tenant)
	if wrong != nil {
		return req, who, wrong
	}
	return req, who, sameToken(c.Request.Header, req.AuthToken)
}

// byBody finds the sender by the token in a body. Refusals of what HTTP says of the body, such as
// its media type, come first.
func (h handlers) byBody(r *http.Request, token string, wrong error) (ingress.Identity, error) {
	public, _ := errors.AsType[*fault.Error](wrong)
	if wrong != nil && (public == nil || public.Code != schemas.InvalidRequest && public.Code != schemas.PayloadTooLarge) {
		return ingress.Identity{}, wrong
	}
	if token == "" {
		return ingress.Identity{}, fault.New(schemas.Unauthorized, "there is no token")
	}
	r = r.WithContext(r.Context())
	r.Header = r.Header.Clone()
	r.Header.Set("Authorization", "Bearer "+token)
	return h.server.Authenticate(r)
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

// may refuses an operation that a token does not permit. A write by a token limited to some entries
// would redirect the calls of others.
func may(who ingress.Identity, operation string) error {
	scopes := Scopes(operation)
	if len(scopes) == 0 {
		return nil
	}
	if err := holds(who, scopes...); err != nil || Reads(operation) {
		return err
	}
	return unlimited(who)
}

// holds refuses a token that has none of the scopes.
func holds(who ingress.Identity, scopes ...string) error {
	if fault.Scope(who.Scopes, scopes...) != nil {
		return disallowed("the token lacks the scope "+strings.Join(scopes, " or "), schemas.DetailScopeRequired)
	}
	return nil
}

// unlimited refuses a token that is limited to some entries.
func unlimited(who ingress.Identity) error {
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

// write stores a write. Its id is made of all that says what it is, so that
// the same request joins it, and only that.
func (h handlers) write(c *gin.Context, who ingress.Identity, req schemas.AgentRequest) error {
	caller := who.Caller()
	var payload []byte
	var fingerprint string
	order, err := Order(req, caller)
	if err == nil {
		payload, err = ledger.Encode(order)
	}
	if err == nil {
		fingerprint, err = strict.Fingerprint(payload)
	}
	if err != nil {
		return err
	}
	name := accept.Derive(accept.PrefixRules, schemas.IDRequest, who.Tenant, schemas.RouteAgentAPI, req.RequestID, caller, fingerprint, h.PolicyVersion())
	return h.submit(c, who, name, payload)
}

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
		err = h.server.ReadNothing(c)
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
	return h.submit(c, who, name, payload)
}

// submit stores a write of rules and answers.
func (h handlers) submit(c *gin.Context, who ingress.Identity, name accept.Name, payload []byte) error {
	action := schemas.Action{Tenant: who.Tenant, Kind: schemas.KindRule, Payload: payload, Principal: who.ID}
	return h.server.Submit(c, accept.Request{Name: name, Action: action}, nil)
}
