package ingress_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress"
	"weir/ingress/executor"
	"weir/ingress/grant"
	"weir/ingress/rules"
	"weir/internal/fault"
	"weir/internal/weirtest/permit"
	"weir/schemas"
)

// api is a request of the agent API.
func api(id, operation, args string) string {
	return `{"type":"AGENT_API_REQUEST","request":{"request_id":"` + id + `","operation":"` + operation + `","args":` + args + `}}`
}

const off = `{"if_match":"etag-1-x"}`

// agents are who may ask in these tests, by their bearer.
func agents(r *http.Request) (ingress.Identity, error) {
	fields := r.Header.Values("Authorization")
	if len(fields) != 1 {
		return ingress.Identity{}, fault.New(schemas.Unauthorized, "a bearer token is needed")
	}
	who := map[string]ingress.Identity{
		"Bearer rules":  {Token: schemas.Token{ID: "id-rules", Tenant: "a", Scopes: []string{schemas.ScopeRulesWrite}}},
		"Bearer reader": {Token: schemas.Token{ID: "id-reader", Tenant: "a", Scopes: []string{schemas.ScopeActionsRead}}},
		"Bearer writer": {Token: schemas.Token{ID: "id-writer", Tenant: "a", Scopes: []string{schemas.ScopeActionsWrite}}},
		"Bearer chief":  {Token: schemas.Token{ID: "id-chief", Tenant: "a", Scopes: []string{schemas.ScopeAdmin}}},
		"Bearer some":   {Token: schemas.Token{ID: "id-some", Tenant: "a", Scopes: []string{schemas.ScopeAdmin}, Entries: []string{"orders"}}},
		"Bearer other":  {Token: schemas.Token{ID: "id-other", Tenant: "b", Scopes: []string{schemas.ScopeRulesWrite}}},
	}
	if i, ok := who[fields[0]]; ok {
		return i, nil
	}
	return ingress.Identity{}, fault.New(schemas.Unauthorized, "no")
}

func authenticated(c *config) { c.Authenticate = agents }

func TestAWriteOfTheRulesIsAnAction(t *testing.T) {
	t.Parallel()
	w := setup(t, authenticated)
	body := api("create \u00fc 1", schemas.OpRulesCreate, `{"group":"g","create_group_if_missing":true,"rule":{"id":"a","priority":1.50},"if_match":"etag-1-x","unknown":true}`)
	w.do(t, post("/v1/agent-api", body, "Authorization", "Bearer rules"))
	id := w.responder.last(t).ref.ID
	require.True(t, schemas.ValidID(id))
	require.True(t, strings.HasPrefix(id, "rul-"))
	got := w.action(t, "a", id)
	require.JSONEq(t, `{"operation":"rules.create","request_id":"create ü 1","caller":"id-rules","if_match":"etag-1-x","group":"g","create_group_if_missing":true,"rule":{"id":"a","priority":1.50}}`, string(got.Payload))
	require.Contains(t, string(got.Payload), "1.50")
	require.Equal(t, "id-rules", got.Principal)
	require.Equal(t, 30*time.Second, got.Deadline.Sub(got.AcceptedAt))
	require.Empty(t, got.Class)
	require.False(t, got.Sensitive)
	require.NotContains(t, w.logs.String(), "create \u00fc 1")

	w = setup(t) // open
	w.do(t, post("/v1/agent-api", api("r", schemas.OpGlobalOff, off)))
	got = w.action(t, "default", w.responder.last(t).ref.ID)
	require.Contains(t, string(got.Payload), `"caller":"open"`)
	require.Empty(t, got.Principal)
}

// TestTheSameWriteJoins: nothing else does.
func TestTheSameWriteJoins(t *testing.T) {
	t.Parallel()
	version := "v1"
	w := setup(t, authenticated, func(c *config) { c.Rules.PolicyVersion = func() string { return version } })
	id := func(bearer, body string) string {
		return w.do(t, post("/v1/agent-api", body, "Authorization", "Bearer "+bearer)).Header().Get("Weir-Action-Id")
	}
	first := id("rules", api("r", schemas.OpRulesEnable, `{"id":"a","if_match":"e"}`))
	require.NotEmpty(t, first)
	for _, same := range []string{
		api("r", schemas.OpRulesEnable, `{"id":"a","if_match":"e"}`),
		`{"operation":"rules.enable","request_id":"r","args":{"if_match":"e","more":1,"id":"a"}}`,
	} {
		require.Equal(t, first, id("rules", same))
		require.True(t, w.responder.last(t).receipt.Duplicate)
	}
	a := w.do(t, post("/v1/agent-api", api("r", schemas.OpRulesEnable, `{"id":"a","if_match":"e"}`), "Authorization", "Bearer rules", "Idempotency-Key", "k"))
	require.Equal(t, first, a.Header().Get("Weir-Action-Id"), "its request_id names it")
	require.EqualValues(t, 1, w.records(t))
	seen := map[string]bool{first: true}
	for i, other := range []string{
		id("rules", api("s", schemas.OpRulesEnable, `{"id":"a","if_match":"e"}`)),
		id("rules", api("r", schemas.OpRulesDisable, `{"id":"a","if_match":"e"}`)),
		id("rules", api("r", schemas.OpRulesEnable, `{"id":"b","if_match":"e"}`)),
		id("rules", api("r", schemas.OpRulesEnable, `{"id":"a","if_match":"f"}`)),
		id("chief", api("r", schemas.OpRulesEnable, `{"id":"a","if_match":"e"}`)),
		id("other", api("r", schemas.OpRulesEnable, `{"id":"a","if_match":"e"}`)),
	} {
		require.NotEmpty(t, other)
		require.False(t, seen[other], i)
		seen[other] = true
	}
	version = "v2"
	require.False(t, seen[id("rules", api("r", schemas.OpRulesEnable, `{"id":"a","if_match":"e"}`))], "another policy may judge it otherwise")
}

func refused(t *testing.T, a answer, status int, code, detail, id, operation string) {
	t.Helper()
	require.Equal(t, status, a.Code, a.Body)
	require.Equal(t, code, a.field("error", "code"), a.Body)
	if detail == "" {
		require.NotContains(t, a.field("error"), "detail")
	} else {
		require.Equal(t, detail, a.field("error", "detail"))
	}
	require.Equal(t, id, a.body["request_id"])
	require.Equal(t, operation, a.body["operation"])
	require.Empty(t, a.Header().Get("Weir-Action-Id"))
}

func TestADisabledAgentAPI(t *testing.T) {
	t.Parallel()
	w := setup(t, authenticated, func(c *config) { c.Rules.AgentAPI = false })
	for _, op := range append(schemas.AgentReads(), append(schemas.AgentWrites(), "rules.delete")...) {
		for _, bearer := range []string{"chief", "x"} {
			a := w.do(t, post("/v1/agent-api", api("r", op, `{"if_match":"e"}`), "Authorization", "Bearer "+bearer))
			refused(t, a, 403, "UNAUTHORIZED", "AGENT_API_DISABLED", "r", op)
		}
	}
	refused(t, w.do(t, post("/v1/agent-api", `{}`)), 403, "UNAUTHORIZED", "AGENT_API_DISABLED", "", "")
	require.Zero(t, w.records(t))
}

// TestTheTokenInTheBody counts like one in the header.
func TestTheTokenInTheBody(t *testing.T) {
	t.Parallel()
	w := setup(t, authenticated)
	for name, tc := range map[string]struct {
		token  string
		header []string
		status int
	}{
		"in the header":           {`null`, []string{"Bearer rules"}, 200},
		"empty in the body":       {`""`, []string{"Bearer rules"}, 200},
		"another scheme":          {`"rules"`, []string{"Basic rules"}, 401},
		"with the scheme":         {`"Bearer rules"`, nil, 401},
		"two, in one":             {`"rules, Bearer chief"`, nil, 401},
		"an empty header":         {`"rules"`, []string{""}, 401},
		"a header that is a list": {`"rules"`, []string{"Bearer rules, Bearer chief"}, 401},
		"twice":                   {`"rules"`, []string{"Bearer rules", "Bearer rules"}, 401},
		"two members":             {`"another","auth_token":null`, []string{"Bearer rules"}, 400}, // a relay may have lent its token
	} {
		r := post("/v1/agent-api", `{"request_id":"r","operation":"status","auth_token":`+tc.token+`}`)
		r.Header["Authorization"] = tc.header
		require.Equal(t, tc.status, w.do(t, r).Code, name)
	}
	require.NotContains(t, w.logs.String(), "nobody")
}

// TestForTenant: a way that names a tenant serves no other.
func TestForTenant(t *testing.T) {
	t.Parallel()
	w := setup(t, authenticated)
	for tenant, status := range map[string]int{"a": 200, "b": 401, "": 401, "default": 401} {
		r := post("/v1/agent-api", api("r", "status", `{}`), "Authorization", "Bearer rules")
		a := w.do(t, r.WithContext(rules.ForTenant(context.Background(), tenant)))
		require.Equal(t, status, a.Code, tenant)
		if status != 200 {
			require.Equal(t, "UNAUTHORIZED", a.field("error", "code"))
		}
	}
	w = setup(t)
	for tenant, status := range map[string]int{"default": 200, "a": 401} {
		r := post("/v1/agent-api", api("r", "status", `{}`))
		require.Equal(t, status, w.do(t, r.WithContext(rules.ForTenant(context.Background(), tenant))).Code)
	}
}

// TestAResetIsAnAction of its admin's own tenant, without an etag.
func TestAResetIsAnAction(t *testing.T) {
	t.Parallel()
	w := setup(t, authenticated, func(c *config) { c.Rules.AgentAPI = false })
	reset := func(bearer, body string, headers ...string) answer {
		headers = append(headers, "Authorization", "Bearer "+bearer)
		r := post(schemas.RouteRulesReset, body, headers...)
		if body == "" {
			r.Header.Del("Content-Type")
		}
		return w.do(t, r)
	}
	a := reset("chief", "", "X-Request-ID", "trace-1")
	c := w.responder.last(t)
	require.Equal(t, schemas.KindRule, c.ref.Kind)
	got := w.action(t, "a", c.ref.ID)
	require.JSONEq(t, `{"operation":"rules.reset","request_id":"trace-1","caller":"id-chief","if_match":""}`, string(got.Payload))
	require.Equal(t, "id-chief", got.Principal)
	require.Equal(t, 30*time.Second, got.Deadline.Sub(got.AcceptedAt))

	once := reset("chief", `{}`, "Idempotency-Key", "k").Header().Get("Weir-Action-Id")
	require.NotEqual(t, a.Header().Get("Weir-Action-Id"), once)
	require.Equal(t, once, reset("chief", "", "Idempotency-Key", "k", "X-Request-ID", "trace-2").Header().Get("Weir-Action-Id"))
	require.True(t, w.responder.last(t).receipt.Duplicate, "it joins the first")
	stored := w.records(t)
	for _, bearer := range []string{"rules", "some"} { // an admin of some entries does not steer all calls
		refused(t, reset(bearer, "", "X-Request-ID", "r"), 403, "UNAUTHORIZED", "SCOPE_REQUIRED", "r", "rules.reset")
	}
	refused(t, reset("chief", `{"more":1}`, "X-Request-ID", "r"), 422, "VALIDATION_ERROR", "", "r", "rules.reset")
	refused(t, reset("chief", "", "X-Request-ID", "r", "Idempotency-Key", "a b"), 400, "INVALID_REQUEST", "", "r", "rules.reset")
	require.Equal(t, stored, w.records(t), "nothing more is stored")
}

type keyed struct{ permit.Policy }

func (keyed) Evaluate(schemas.HTTPCall) (schemas.Decision, schemas.Class) {
	return schemas.Decision{Allowed: true, Version: "v"}, schemas.ClassKeyed
}

// TestTheRouteKnowsTheCaller: the rules that a call is judged under are its tenant's.
func TestTheRouteKnowsTheCaller(t *testing.T) {
	t.Parallel()
	var asked []grant.Caller
	w := setup(t, served, authenticated, func(c *config) {
		c.Evaluate = func(who grant.Caller) executor.Policy { asked = append(asked, who); return keyed{} }
	})
	w.do(t, post("/v1/execute", okGet, "Authorization", "Bearer some"))
	require.Equal(t, schemas.ClassKeyed, w.responder.last(t).receipt.Class, "as that policy has it")
	w.do(t, post("/agents/run/sync", fmt.Sprintf(`{"request_id":"r","task_type":"HTTP_EXECUTE","inputs":%s}`, okGet), "Authorization", "Bearer writer"))
	require.Equal(t, []grant.Caller{
		{Tenant: "a", Kind: schemas.KindHTTP, Principal: "id-some", Entries: []string{"orders"}},
		{Tenant: "a", Kind: schemas.KindRun, TaskType: schemas.TaskHTTPExecute, Principal: "id-writer"},
	}, asked)
}
