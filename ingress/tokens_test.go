package ingress_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/ingress"
	"weir/internal/fault"
	"weir/schemas"
)

type issuer struct {
	by      schemas.Token
	req     schemas.TokenRequest
	revoked string
}

func (i *issuer) Create(_ context.Context, by schemas.Token, req schemas.TokenRequest) (schemas.NewToken, error) {
	if req.Name == "bad" {
		return schemas.NewToken{}, fault.New(schemas.ValidationError, "at /name: no")
	}
	i.by, i.req = by, req
	return schemas.NewToken{Token: schemas.Token{ID: "t1", Name: req.Name}, Secret: "weir1_secret"}, nil
}

func (i *issuer) Revoke(_ context.Context, by schemas.Token, id string) (schemas.Token, error) {
	if id == "unknown" {
		return schemas.Token{}, fault.New(schemas.NotFound, "there is no token with this id")
	}
	i.by, i.revoked = by, id
	return schemas.Token{ID: id, Status: "revoked"}, nil
}

// people are who may ask in these tests, by their bearer.
func people(r *http.Request) (ingress.Identity, error) {
	who := map[string]ingress.Identity{
		"Bearer root":    {Token: schemas.Token{ID: "id-root", Tenant: "a", Scopes: []string{"admin"}}},
		"Bearer writer":  {Token: schemas.Token{ID: "id-writer", Tenant: "a", Scopes: []string{"actions:write"}}},
		"Bearer limited": {Token: schemas.Token{ID: "id-limited", Tenant: "a", Scopes: []string{"actions:write"}, Entries: []string{"orders", "stock"}}},
		"Bearer chief":   {Token: schemas.Token{ID: "id-chief", Tenant: "a", Scopes: []string{"admin"}, Entries: []string{"stock"}}},
	}
	if i, ok := who[r.Header.Get("Authorization")]; ok {
		return i, nil
	}
	return ingress.Identity{}, fault.New(schemas.Unauthorized, "no")
}

func TestTokensAreForAdmins(t *testing.T) {
	t.Parallel()
	made := &issuer{}
	w := setup(t, func(c *config) { c.Authenticate, c.Issuer = people, made })
	const body = `{"name":"ci","scopes":["actions:read"],"tenant":"b","entries":["orders"],"rate":"1/s","expires_in":"1h"}`
	for _, path := range []string{"/v1/tokens", "/v1/tokens/t1/revoke"} {
		require.Equal(t, http.StatusUnauthorized, w.do(t, post(path, body)).Code)
		require.Equal(t, http.StatusForbidden, w.do(t, post(path, body, "Authorization", "Bearer writer")).Code)
	}
	require.Zero(t, *made)

	a := w.do(t, post("/v1/tokens", body, "Authorization", "Bearer root"))
	require.Equal(t, http.StatusCreated, a.Code)
	require.Equal(t, "weir1_secret", a.body["secret"])
	require.Equal(t, "no-store", a.Header().Get("Cache-Control"))
	require.Equal(t, "id-root", made.by.ID)
	require.Equal(t, schemas.TokenRequest{
		Name: "ci", Tenant: "b", Scopes: []string{"actions:read"}, ExpiresIn: "1h", Entries: []string{"orders"}, Rate: "1/s",
	}, made.req)
	a = w.do(t, post("/v1/tokens/t1/revoke", "", "Authorization", "Bearer root"))
	require.Equal(t, http.StatusOK, a.Code)
	require.Equal(t, "revoked", a.body["status"])
	require.Equal(t, "t1", made.revoked)
	require.Equal(t, http.StatusNotFound, w.do(t, post("/v1/tokens/unknown/revoke", "", "Authorization", "Bearer root")).Code)
	require.NotContains(t, w.logs.String(), "weir1_")
	require.Contains(t, w.logs.String(), `"surface":"tokens"`)

	for body, status := range map[string]int{
		`{"name":"bad","scopes":["admin"]}`:            422,
		`{"name":"a","scopes":["admin"],"admin":true}`: 422,
		`{"name":"a","name":"b","scopes":["admin"]}`:   400,
		`{"name":7,"scopes":["admin"]}`:                422,
		`{"name":"a","scopes":"admin"}`:                422,
		`{`:                                            400,
	} {
		require.Equal(t, status, w.do(t, post("/v1/tokens", body, "Authorization", "Bearer root")).Code, body)
	}
	require.Equal(t, 422, w.do(t, post("/v1/tokens/t1/revoke", `{"now":true}`, "Authorization", "Bearer root")).Code)
	require.Equal(t, 415, w.do(t, post("/v1/tokens", "name=a", "Authorization", "Bearer root", "Content-Type", "text/plain")).Code)
}

func planFor(keys ...string) string {
	var decisions []string
	for _, k := range keys {
		decisions = append(decisions, `{"effect_ref":"e-`+k+`","target_state":{"url":"http://ok.example/","allowlist_key":"`+k+`"}}`)
	}
	return `{"state:env.snapshot":{},"artifact:proposed.plan":{"plan_id":"p","decisions":[` + strings.Join(decisions, ",") + `]}}`
}

// TestALimitedTokenNamesItsEntries: another one is refused before anything is stored, whether there is such
// an entry or not. The action names who asked for it, and what that token may use.
func TestALimitedTokenNamesItsEntries(t *testing.T) {
	t.Parallel()
	call := func(host, key string) string {
		return `{"method":"GET","url":"http://` + host + `/","allowlist_key":"` + key + `"}`
	}
	for _, tc := range []struct {
		path, body string
		refused    bool
	}{
		{"/v1/execute", okGet, false},
		{"/v1/execute", call("ok.example", "orders"), false},
		{"/v1/execute", call("ok.example", "admin"), true},
		{"/v1/execute", call("evil.example", "admin"), true},
		{"/v1/plans", planFor("orders", "stock"), false},
		{"/v1/plans", planFor("orders", "admin"), true},
	} {
		w := setup(t, func(c *config) { c.Authenticate = people })
		if tc.refused {
			w.do(t, post(tc.path, tc.body, "Authorization", "Bearer limited")).refused(t, http.StatusForbidden, schemas.Forbidden)
			require.Zero(t, w.records(t), tc)
		}
		for bearer, entries := range map[string][]string{"limited": {"orders", "stock"}, "writer": nil} {
			if tc.refused && bearer == "limited" {
				continue
			}
			require.Equal(t, http.StatusAccepted, w.do(t, post(tc.path, tc.body, "Authorization", "Bearer "+bearer)).Code, tc)
			a := w.action(t, "a", w.responder.last(t).ref.ID)
			require.Equal(t, []any{"id-" + bearer, entries}, []any{a.Principal, a.Entries})
		}
	}
}

func (w *world) parked(t *testing.T, a schemas.Action) (sequence string) {
	t.Helper()
	st, _, err := w.ledger.Claim(t.Context(), a)
	require.NoError(t, err)
	require.NoError(t, w.ledger.Append(t.Context(), st, schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeFailed}}))
	return w.bury(t, schemas.DeadLetter{Tenant: a.Tenant, Kind: a.Kind, ActionID: a.ID, Code: schemas.Poison})
}

// bury puts a dead letter on the log.
func (w *world) bury(t *testing.T, letter schemas.DeadLetter) (sequence string) {
	t.Helper()
	data, err := json.Marshal(letter)
	require.NoError(t, err)
	seq, err := w.log.Append(t.Context(), schemas.Append{Subject: schemas.DeadSubject(letter), Data: data})
	require.NoError(t, err)
	return strconv.FormatUint(seq, 10)
}

// browsers remembers who signed in and out.
type browsers struct{ in, out string }

func (b *browsers) SignIn(_ context.Context, token string) (string, time.Time, error) {
	if token != "good" {
		return "", time.Time{}, fault.New(schemas.Unauthorized, "no")
	}
	b.in = token
	return "weirc_value", time.Now().Add(time.Hour), nil
}

func (b *browsers) SignOut(_ context.Context, value string) error {
	b.out = value
	return nil
}

func TestSignInAndOut(t *testing.T) {
	t.Parallel()
	known := &browsers{}
	w := setup(t, func(c *config) { c.Authenticate, c.Sessions = people, known })
	own := []string{"Weir-Console", "1", "Sec-Fetch-Site", "same-origin"}
	ask := func(method, body string, header ...string) answer {
		r := post(schemas.RouteConsoleSession, body, append(own, header...)...)
		r.Method = method
		return w.do(t, r)
	}
	require.Equal(t, http.StatusForbidden, w.do(t, post(schemas.RouteConsoleSession, `{"token":"good"}`)).Code, "another page's form")
	for body, status := range map[string]int{
		`{"token":"bad"}`: 401, `{}`: 401, `{"token":7}`: 422, `{"token":"good","x":1}`: 422, `{`: 400,
	} {
		a := ask(http.MethodPost, body)
		require.Equal(t, status, a.Code, body)
		require.Empty(t, a.Header().Values("Set-Cookie"), body)
	}
	require.Empty(t, known.in)
	a := ask(http.MethodPost, `{"token":"good"}`)
	require.Equal(t, http.StatusOK, a.Code)
	require.Contains(t, a.Header().Get("Set-Cookie"), "weir_console=weirc_value; Path=/; Max-Age=")
	require.Equal(t, "no-store", a.Header().Get("Cache-Control"))

	a = ask(http.MethodDelete, "", "Cookie", "weir_console=weirc_value")
	require.Equal(t, http.StatusOK, a.Code)
	require.Equal(t, "weirc_value", known.out)
	require.Contains(t, a.Header().Get("Set-Cookie"), "Max-Age=0")
	require.Equal(t, http.StatusOK, ask(http.MethodDelete, "").Code, "nobody signed in: nothing to do")
	require.NotContains(t, w.logs.String(), "weirc_")
	require.NotContains(t, w.logs.String(), "good")
	require.Contains(t, w.logs.String(), `"surface":"console"`)
}

type policies struct {
	asked   schemas.HTTPCall
	only    []string
	reloads int
	broken  error
}

func (p *policies) Explain(call schemas.HTTPCall, only []string) schemas.Explanation {
	p.asked, p.only = call, only
	return schemas.Explanation{Decision: schemas.Decision{Allowed: true, Entry: "one", Version: "v"}, Entries: []schemas.EntryVerdict{}}
}

func (*policies) Entries() []string { return nil }

func (p *policies) ReloadAll(context.Context) (schemas.Reload, error) {
	return schemas.Reload{Version: "v2", Previous: "v1", Nodes: []schemas.NodeReport{{Node: "n", Role: "worker", Version: "v2"}}}, p.broken
}

func (p *policies) Reload(context.Context) (schemas.Reload, error) {
	p.reloads++
	return schemas.Reload{Version: "v2", Previous: "v1", Changed: true}, p.broken
}

func as(scopes ...string) func(*config) { return of(schemas.Operator, scopes...) }

func of(tenant string, scopes ...string) func(*config) {
	return func(c *config) {
		c.Authenticate = func(*http.Request) (ingress.Identity, error) {
			return ingress.Identity{Token: schemas.Token{Tenant: tenant, Scopes: scopes, ID: "t", Entries: []string{"one"}}}, nil
		}
	}
}

func TestExplainRoute(t *testing.T) {
	t.Parallel()
	p := &policies{}
	w := setup(t, as(schemas.ScopeActionsRead), func(c *config) { c.Policies = p })
	a := w.do(t, post("/v1/policy/explain", `{"method":"POST","url":"https://a.example/","allowlist_key":"one","headers":{"A":"b"},"body":{"n":1.50},"idempotency_key":"k"}`))
	require.Equal(t, http.StatusOK, a.Code)
	assert.JSONEq(t, `{"allowed":true,"entry":"one","version":"v","entries":[]}`, a.Body.String())
	assert.Equal(t, schemas.HTTPCall{
		Method: "POST", URL: "https://a.example/", AllowlistKey: "one", Headers: []schemas.Header{{Name: "A", Value: "b"}},
		Body: []byte(`{"n":1.50}`), IdempotencyKey: "k",
	}, p.asked)
	assert.Equal(t, []string{"one"}, p.only, "the token's entries are all there are")
	w.do(t, post("/v1/policy/explain", `{"url":"https://a.example/","body":null}`))
	assert.Equal(t, schemas.HTTPCall{Method: "GET", URL: "https://a.example/"}, p.asked)
	assert.Zero(t, w.records(t))
}

func TestReloadRoute(t *testing.T) {
	t.Parallel()
	p := &policies{}
	w := setup(t, as(schemas.ScopeAdmin), func(c *config) { c.Policies = p })
	a := w.do(t, bare("/v1/policy/reload"))
	require.Equal(t, http.StatusOK, a.Code)
	assert.JSONEq(t, `{"version":"v2","previous":"v1","changed":true}`, a.Body.String())
	p.broken = fault.New(schemas.ValidationError, "nothing was changed: weir.yaml:3: policy: wrong")
	a = w.do(t, post("/v1/policy/reload", `{}`))
	require.Equal(t, http.StatusUnprocessableEntity, a.Code)
	assert.Contains(t, a.Body.String(), "weir.yaml:3")
	require.Equal(t, 2, p.reloads)
	require.Equal(t, http.StatusUnprocessableEntity, w.do(t, post("/v1/policy/reload", `{"force":true}`)).Code)
	require.Equal(t, 2, p.reloads)
	p.broken = nil
	a = w.do(t, post("/v1/policy/reload", `{"all":true}`))
	require.Equal(t, http.StatusOK, a.Code)
	assert.Contains(t, a.Body.String(), `"nodes":[{"node":"n","role":"worker","version":"v2"`)
	require.Equal(t, 2, p.reloads)
}

// TestTheOperatorAloneReloads: the policy is every tenant's.
func TestTheOperatorAloneReloads(t *testing.T) {
	t.Parallel()
	p := &policies{}
	w := setup(t, of("acme", schemas.ScopeAdmin), func(c *config) { c.Policies = p })
	assert.Equal(t, http.StatusForbidden, w.do(t, bare("/v1/policy/reload")).Code)
	assert.Zero(t, p.reloads)
}

func submit(id string) *http.Request {
	return post("/v1/execute", `{"method":"POST","url":"http://ok.example/x","request_id":"`+id+`"}`)
}

func bare(path string) *http.Request { return httptest.NewRequest(http.MethodPost, path, http.NoBody) }

func (w *world) start(t *testing.T, id string) {
	t.Helper()
	st, err := w.ledger.Find(t.Context(), "default", id)
	require.NoError(t, err)
	require.NoError(t, w.ledger.Append(t.Context(), st, schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "w"}}))
}

func TestCancelRoute(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do(t, submit("new"))
	a := w.do(t, bare("/v1/actions/new/cancel"))
	require.Equal(t, http.StatusOK, a.Code)
	require.JSONEq(t, `{"id":"new","status":"canceled"}`, a.Body.String())
	require.Equal(t, "new", a.Header().Get("Weir-Action-Id"))
	a = w.do(t, bare("/v1/actions/new/cancel")).refused(t, http.StatusConflict, schemas.Conflict)
	require.Contains(t, a.body["detail"], "canceled")
	require.Equal(t, "new", a.Header().Get("Weir-Action-Id"))

	w.do(t, submit("running"))
	w.start(t, "running")
	a = w.do(t, post("/v1/actions/running/cancel", `{}`))
	require.Equal(t, http.StatusAccepted, a.Code)
	require.JSONEq(t, `{"id":"running","status":"started","cancel_requested":true}`, a.Body.String())
	require.Equal(t, "running", (<-w.stopped).ID)

	w.do(t, bare("/v1/actions/nope/cancel")).refused(t, http.StatusNotFound, schemas.NotFound)
	w.do(t, post("/v1/actions/new/cancel", `{"force":true}`)).refused(t, http.StatusUnprocessableEntity, schemas.ValidationError)
	r := post("/v1/actions/new/cancel", `x`)
	r.Header.Del("Content-Type")
	w.do(t, r).refused(t, http.StatusBadRequest, schemas.InvalidRequest)
}

func TestResolveRoute(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do(t, submit("x"))
	const path = "/v1/actions/x/resolve"
	w.do(t, post(path, `{"effect":"applied"}`)).refused(t, http.StatusConflict, schemas.Conflict)
	w.settle(t, "x", schemas.OutcomeUnknown)
	a := w.do(t, post(path, `{"effect":"applied","note":"seen"}`))
	require.Equal(t, http.StatusOK, a.Code)
	require.JSONEq(t, `{"id":"x","status":"outcome_unknown","resolution":"applied"}`, a.Body.String())
	w.do(t, post(path, `{"effect":"AGWCANARY"}`)).refused(t, http.StatusUnprocessableEntity, schemas.ValidationError)
	w.do(t, bare(path)).refused(t, http.StatusUnsupportedMediaType, schemas.UnsupportedMediaType)
	w.do(t, post("/v1/actions/y/resolve", `{"effect":"applied"}`)).refused(t, http.StatusNotFound, schemas.NotFound)
}

func TestRedriveRoute(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do(t, submit("x"))
	w.settle(t, "x", schemas.OutcomeFailed)
	w.bury(t, schemas.DeadLetter{Tenant: "default", Kind: schemas.KindHTTP, ActionID: "x", Code: schemas.Poison})
	a := w.do(t, post("/v1/dead-letters/redrive", `{"sequence":1}`))
	require.Equal(t, http.StatusAccepted, a.Code)
	id := a.Header().Get("Weir-Action-Id")
	require.Equal(t, "/v1/actions/"+id, a.Header().Get("Location"))
	require.Equal(t, "x", w.action(t, "default", id).Supersedes)
	again := w.do(t, post("/v1/dead-letters/redrive", `{"sequence":1}`))
	require.Equal(t, id, again.Header().Get("Weir-Action-Id"))
	require.Equal(t, true, again.body["duplicate"])
	require.Equal(t, http.StatusUnprocessableEntity, w.do(t, post("/v1/dead-letters/redrive", `{}`)).Code)
	require.Equal(t, http.StatusNotFound, w.do(t, post("/v1/dead-letters/redrive", `{"sequence":9}`)).Code)
}
