package ingress_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/ingress"
	"weir/internal/fault"
	"weir/schemas"
)

// policies remembers what it was asked.
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

func (p *policies) ReloadAll(context.Context) (schemas.Reload, error) {
	return schemas.Reload{Version: "v2", Previous: "v1", Nodes: []schemas.NodeReload{{Node: "n", Role: "worker", Version: "v2"}}}, p.broken
}

func (p *policies) Reload(context.Context) (schemas.Reload, error) {
	p.reloads++
	return schemas.Reload{Version: "v2", Previous: "v1", Changed: true}, p.broken
}

func as(scopes ...string) func(*ingress.Config) { return of(schemas.Operator, scopes...) }

func of(tenant string, scopes ...string) func(*ingress.Config) {
	return func(c *ingress.Config) {
		c.Authenticate = func(*http.Request) (ingress.Identity, error) {
			return ingress.Identity{Tenant: tenant, Scopes: scopes, ID: "t", Entries: []string{"one"}}, nil
		}
	}
}

func TestExplainRoute(t *testing.T) {
	t.Parallel()
	p := &policies{}
	w := setup(t, as(schemas.ScopeActionsRead), func(c *ingress.Config) { c.Policies = p })
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
	w := setup(t, as(schemas.ScopeAdmin), func(c *ingress.Config) { c.Policies = p })
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

// TestPolicyRoutesAskForScopes: whoever may only read cannot reload, and whoever
// may only write sees nothing.
func TestPolicyRoutesAskForScopes(t *testing.T) {
	t.Parallel()
	explain := func() *http.Request { return post("/v1/policy/explain", `{"url":"https://a.example/"}`) }
	for scope, want := range map[string][2]int{
		schemas.ScopeActionsRead:  {http.StatusOK, http.StatusForbidden},
		schemas.ScopeActionsWrite: {http.StatusForbidden, http.StatusForbidden},
		schemas.ScopeAdmin:        {http.StatusOK, http.StatusOK},
	} {
		p := &policies{}
		w := setup(t, as(scope), func(c *ingress.Config) { c.Policies = p })
		assert.Equal(t, want[0], w.do(t, explain()).Code, scope)
		assert.Equal(t, want[1], w.do(t, bare("/v1/policy/reload")).Code, scope)
		assert.Equal(t, want[1] == http.StatusOK, p.reloads == 1, scope)
	}
	p := &policies{}
	w := setup(t, of("acme", schemas.ScopeAdmin), func(c *ingress.Config) { c.Policies = p })
	assert.Equal(t, http.StatusForbidden, w.do(t, bare("/v1/policy/reload")).Code, "the policy is every tenant's")
	assert.Zero(t, p.reloads)
}
