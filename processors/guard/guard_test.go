package guard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/internal/policy/evaluate"
	"weir/internal/traffic"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/processors/guard"
	"weir/schemas"
)

func entry(name string) policy.Entry {
	return policy.Entry{
		Name: name, URLPrefix: "https://up.example/", Methods: []string{"GET", "POST"}, Redirects: 2,
		Headers:       map[string]string{"X-Key": "${secret:" + strings.ToUpper(name) + "}"},
		CallerHeaders: []string{"X-Own", "X-A"},
	}
}

func setup(t *testing.T, entries ...policy.Entry) (*harness.Policy, *guard.Guard) {
	t.Helper()
	r := &harness.Policy{}
	r.Enforce(t, entries...)
	return r, guard.New(r.InForce, nil)
}

func get(key string) schemas.HTTPCall {
	return schemas.HTTPCall{Method: "GET", URL: "https://up.example/a", AllowlistKey: key}
}

func TestScope(t *testing.T) {
	t.Parallel()
	_, g := setup(t, entry("one"), entry("two"))
	for name, tt := range map[string]struct {
		key   string
		scope evaluate.Scope
		entry string // empty: denied
	}{
		"any":                 {"", evaluate.Scope{}, "one"},
		"a key":               {"two", evaluate.Scope{}, "two"},
		"a key is required":   {"", evaluate.Scope{KeyRequired: true}, ""},
		"only the other":      {"", evaluate.Scope{Only: []string{"two"}}, "two"},
		"its own":             {"two", evaluate.Scope{Only: []string{"two"}}, "two"},
		"another's":           {"one", evaluate.Scope{Only: []string{"two"}}, ""},
		"what does not exist": {"", evaluate.Scope{Only: []string{"three"}}, ""},
	} {
		p, d := g.Check(get(tt.key), tt.scope)
		assert.Equal(t, tt.entry != "", p.Valid(), name)
		assert.Equal(t, tt.entry != "", d.Allowed, name)
		if tt.entry != "" {
			assert.Equal(t, tt.entry, d.Entry, name)
		}
	}
}

// TestRenew: a pass is good for as long as its policy.
func TestRenew(t *testing.T) {
	t.Parallel()
	r, g := setup(t, entry("one"))
	p, _ := g.Check(get(""), evaluate.Scope{})
	same, d := g.Renew(p)
	assert.True(t, p == same) //nolint:testifylint // the very same, and not an equal one
	assert.Equal(t, p.Decision(), d)

	r.Enforce(t, entry("two"))
	fresh, d := g.Renew(p)
	require.True(t, fresh.Valid())
	assert.NotEqual(t, p, fresh)
	assert.Equal(t, "two", d.Entry)
	assert.Equal(t, map[string]string{"X-Key": "${secret:TWO}"}, fresh.Added().Headers, "the credentials are those of the entry that now lets it pass")
	assert.Equal(t, r.InForce().Version(), fresh.Permit().Version())

	r.Enforce(t)
	gone, d := g.Renew(fresh)
	assert.False(t, gone.Valid())
	assert.Equal(t, schemas.DenyHost, d.Code)
	_, d = g.Connect("up.example:443", evaluate.Scope{})
	assert.Equal(t, schemas.DenyHost, d.Code)

	zero, d := g.Renew(guard.Pass{})
	assert.False(t, zero.Valid())
	assert.False(t, d.Allowed)
}

// TestATunnelBypassesNoRule: a tunnel that would hide calls from a rule is denied. The requests in an
// inspected tunnel go by the rules themselves.
func TestATunnelBypassesNoRule(t *testing.T) {
	t.Parallel()
	tunnel, inspect := entry("one"), entry("two")
	tunnel.Headers, tunnel.CallerHeaders, tunnel.Connect = nil, nil, policy.ConnectTunnel
	inspect.URLPrefix, inspect.Connect = "https://inspected.example/", policy.ConnectInspect
	r := &harness.Policy{}
	r.Enforce(t, tunnel, inspect)
	book := &rulebook.Book{}
	g := guard.New(r.InForce, book)
	ask := func(host string) (code schemas.Code, reason string) {
		p, d := g.Connect(host+":443", evaluate.Scope{})
		assert.Equal(t, d.Allowed, p.Valid())
		return d.Code, d.Reason
	}
	book.Put(t, rulebook.Delay("d", "*", 5), rulebook.SetHeader("h", "*", "X-A", "1"), rulebook.Mock("m", "https://other.example/*", 200, ""))
	code, _ := ask("up.example")
	assert.Empty(t, code)

	book.Put(t, rulebook.Mock("m", "https://*.example/x", 200, ""))
	code, reason := ask("up.example")
	assert.Equal(t, schemas.DenyRule, code)
	assert.Contains(t, reason, "the traffic rule m answers or redirects")
	code, _ = ask("inspected.example")
	assert.Empty(t, code)

	book.Break(errors.New("private"))
	code, reason = ask("up.example")
	assert.Equal(t, schemas.DenyRule, code)
	assert.Contains(t, reason, "cannot be read")
}

// TestRenewKeepsTheScope: what the asker may not use, no reload gives to it.
func TestRenewKeepsTheScope(t *testing.T) {
	t.Parallel()
	r, g := setup(t, entry("one"))
	p, _ := g.Check(get(""), evaluate.Scope{Only: []string{"one"}})
	r.Enforce(t, entry("two"))
	fresh, d := g.Renew(p)
	assert.False(t, fresh.Valid(), "%+v", d)
}

// TestRedirectIsDecidedByThePolicyInForce: neither the pass of the call nor that of a
// hop outlives its policy, and a hop always knows the secrets that went before it.
func TestRedirectIsDecidedByThePolicyInForce(t *testing.T) {
	t.Parallel()
	r, g := setup(t, entry("one"))
	p, _ := g.Check(get("one"), evaluate.Scope{})
	hop, d := g.Redirect(p, "/b", 302, 1)
	require.True(t, hop.Valid(), "%+v", d)
	assert.True(t, hop.IsRedirect())
	assert.Equal(t, "https://up.example/b", hop.Call().URL)

	other := entry("one")
	other.Headers = map[string]string{"X-Key": "${secret:OTHER}"}
	r.Enforce(t, other)
	fresh, d := g.Renew(hop)
	require.True(t, fresh.Valid(), "%+v", d)
	assert.Equal(t, r.InForce().Version(), d.Version)
	assert.Equal(t, map[string]string{"X-Key": "${secret:ONE}"}, fresh.Added().Headers, "what was sent before the hop")

	none := entry("one")
	none.Redirects = 0
	r.Enforce(t, none)
	_, d = g.Redirect(p, "/b", 302, 1)
	assert.Equal(t, schemas.DenyRedirect, d.Code)
	_, d = g.Renew(hop)
	assert.Equal(t, schemas.DenyRedirect, d.Code)

	r.Enforce(t)
	_, d = g.Redirect(p, "/b", 302, 1)
	assert.False(t, d.Allowed)
}

// TestOwnCredentialsStayAtTheirOrigin: neither a redirect of the target's nor one of the
// rules' takes them elsewhere, and what is elsewhere is scrubbed of them all the same.
func TestOwnCredentialsStayAtTheirOrigin(t *testing.T) {
	t.Parallel()
	_, b, g := under(t, policy.Entry{Name: "any", URLPrefix: policy.AnyHost, Redirects: 3})
	b.Put(t, rulebook.Redirect("r", "https://ruled.example/*", "https://to.example/$1"), rulebook.Redirect("s", "https://same.example/old/*", "https://same.example/$1"))
	own := []schemas.Header{{Name: "Authorization", Value: "Bearer t"}, {Name: "cookie", Value: "a=b"}, {Name: "X-Api-Key", Value: "k"}}
	ask := func(url string) guard.Pass {
		p, d := g.Check(schemas.HTTPCall{Method: "GET", URL: url, Headers: append([]schemas.Header{{Name: "Accept", Value: "*/*"}}, own...)}, evaluate.Scope{Tenant: "t"})
		require.True(t, p.Valid(), "%+v", d)
		return p
	}
	hop := func(url, location string) guard.Pass {
		p, d := g.Redirect(ask(url), location, 302, 1)
		require.True(t, p.Valid(), "%+v", d)
		return p
	}
	for name, tt := range map[string]struct {
		pass guard.Pass
		kept bool
	}{
		"the call":                          {ask("https://up.example/a"), true},
		"a hop at the origin":               {hop("https://up.example/a", "https://UP.example:443/b"), true},
		"a relative hop":                    {hop("https://up.example/a", "b"), true},
		"a hop to another host":             {hop("https://up.example/a", "https://other.example/"), false},
		"a hop to a host below":             {hop("https://up.example/a", "https://a.up.example/"), false},
		"a hop to another scheme":           {hop("https://up.example/a", "http://up.example/"), false},
		"a hop to another port":             {hop("https://up.example/a", "https://up.example:80/"), false},
		"a rule that leads elsewhere":       {ask("https://ruled.example/a"), false},
		"a hop behind it":                   {hop("https://ruled.example/a", "/b"), false},
		"a hop that a rule leads elsewhere": {hop("https://up.example/a", "https://ruled.example/a"), false},
		"a rule that stays":                 {ask("https://same.example/old/a"), true},
		"a hop behind that":                 {hop("https://same.example/old/a", "/b"), true},
	} {
		want := 1
		if tt.kept {
			want = 4
		}
		assert.Len(t, tt.pass.Call().Headers, want, name)
		assert.Equal(t, own, tt.pass.Credentials(), name)
	}
}

// TestSettleWaitsForWhatWasLetPass: after Settle no call begins any more that was
// let pass under a policy before, and nobody who comes later waits for it.
func TestSettleWaitsForWhatWasLetPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, g := setup(t, entry("one"))
		p, _ := g.Check(get(""), evaluate.Scope{})
		require.NoError(t, g.Settle(t.Context()), "nobody is on the way")

		early, _, leave := g.Begin(p)
		require.True(t, early.Valid())
		r.Enforce(t)
		var settled atomic.Bool
		go func() {
			assert.NoError(t, g.Settle(context.Background()))
			settled.Store(true)
		}()
		synctest.Wait()
		require.False(t, settled.Load(), "a call that was let pass has not begun")

		late, _, leaveLate := g.Begin(p)
		require.False(t, late.Valid(), "whoever comes after the exchange is decided by the new policy")
		leave()
		leave() // again: nothing
		synctest.Wait()
		require.True(t, settled.Load(), "who came later is not waited for")
		leaveLate()
		require.NoError(t, g.Settle(t.Context()))
	})
}

// under is a guard with rules beside the policy.
func under(t *testing.T, entries ...policy.Entry) (*harness.Policy, *rulebook.Book, *guard.Guard) {
	t.Helper()
	r, b := &harness.Policy{}, &rulebook.Book{}
	r.Enforce(t, entries...)
	return r, b, guard.New(r.InForce, b)
}

// TestRulesBeforePolicy: policy decides about what the rules leave of a call, and a
// denial that is theirs alone bears their code and names them.
func TestRulesBeforePolicy(t *testing.T) {
	t.Parallel()
	v1 := policy.Entry{Name: "api", URLPrefix: "https://api.example.com/v1/", Methods: []string{"GET"}, Headers: map[string]string{"X-Key": "k"}, CallerHeaders: []string{"X-Trace"}, CallerParams: []string{"a", "b"}}
	v2 := policy.Entry{Name: "two", URLPrefix: "https://two.example.com:8443/", Methods: []string{"GET"}}
	const all, here = "https://api.example.com/*", "https://api.example.com/v1/x?b=2&a=1"
	type testCase struct {
		rules  []schemas.Rule
		key    string
		only   []string
		method string
		url    string
		code   schemas.Code
		want   schemas.Traffic
	}
	table.Run(t, map[string]testCase{
		"none applies":              {rules: []schemas.Rule{rulebook.Mock("m", "https://other.example.com/*", 200, "")}},
		"a redirect in the entry":   {rules: []schemas.Rule{rulebook.Redirect("r", "https://api.example.com/v1/x", "https://api.example.com/v1/y")}, key: "api", want: schemas.Traffic{Rules: []string{"r"}, Redirected: "r", Target: "https://api.example.com/v1/y?a,b"}},
		"a redirect to another":     {rules: []schemas.Rule{rulebook.Redirect("r", all, "https://two.example.com:8443/$1?c=3&c=4")}, want: schemas.Traffic{Rules: []string{"r"}, Redirected: "r", Target: "https://two.example.com:8443/v1/x?c"}},
		"another, with a key":       {rules: []schemas.Rule{rulebook.Redirect("r", all, "https://two.example.com:8443/$1")}, key: "api", code: schemas.DenyRule, want: schemas.Traffic{Rules: []string{"r"}, Redirected: "r", Target: "https://two.example.com:8443/v1/x?a,b"}},
		"another, not the token's":  {rules: []schemas.Rule{rulebook.Redirect("r", all, "https://two.example.com:8443/$1")}, only: []string{"api"}, code: schemas.DenyRule, want: schemas.Traffic{Rules: []string{"r"}, Redirected: "r", Target: "https://two.example.com:8443/v1/x?a,b"}},
		"a redirect out of the way": {rules: []schemas.Rule{rulebook.Redirect("r", all, "https://api.example.com/admin")}, key: "api", code: schemas.DenyRule, want: schemas.Traffic{Rules: []string{"r"}, Redirected: "r", Target: "https://api.example.com/admin?a,b"}},
		"a metadata service":        {rules: []schemas.Rule{rulebook.Redirect("r", all, "http://169.254.169.254/latest")}, code: schemas.DenyRule, want: schemas.Traffic{Rules: []string{"r"}, Redirected: "r", Target: "http://169.254.169.254/latest?a,b"}},
		"a header":                  {rules: []schemas.Rule{rulebook.SetHeader("h", all, "X-Trace", "1")}, key: "api", want: schemas.Traffic{Rules: []string{"h"}}},
		"a header of the entry":     {rules: []schemas.Rule{rulebook.SetHeader("h", all, "x-key", "mine")}, key: "api", code: schemas.DenyRule, want: schemas.Traffic{Rules: []string{"h"}}},
		"a circle":                  {rules: []schemas.Rule{rulebook.Redirect("r1", "https://api.example.com/v1/x", "https://api.example.com/v1/y"), rulebook.Redirect("r2", "https://api.example.com/v1/y", "https://api.example.com/v1/x")}, key: "api", code: schemas.DenyRule, want: schemas.Traffic{Rules: []string{"r1"}, Redirected: "r1", Target: "https://api.example.com/v1/y?a,b"}},
		"denied anyway":             {rules: []schemas.Rule{rulebook.SetHeader("h", all, "X-Trace", "1")}, method: "PUT", key: "api", code: schemas.DenyMethod, want: schemas.Traffic{Rules: []string{"h"}}},
		"allowed by the rules":      {rules: []schemas.Rule{rulebook.Redirect("r", "https://old.example.com/*", "https://api.example.com/v1/$1")}, url: "https://old.example.com/x", want: schemas.Traffic{Rules: []string{"r"}, Redirected: "r", Target: "https://api.example.com/v1/x?"}},
		"a mock":                    {rules: []schemas.Rule{rulebook.Mock("m", all, 200, "{}")}, key: "api", want: schemas.Traffic{Rules: []string{"m"}, Mocked: "m"}},
		"a mock of what is denied":  {rules: []schemas.Rule{rulebook.Mock("m", "https://old.example.com/*", 200, "{}")}, url: "https://old.example.com/x", code: schemas.DenyHost, want: schemas.Traffic{Rules: []string{"m"}, Mocked: "m"}},
		"a delay":                   {rules: []schemas.Rule{rulebook.Delay("d1", all, 300), rulebook.Delay("d2", all, 500)}, want: schemas.Traffic{Rules: []string{"d2", "d1"}, DelayMS: 800}},
		"a URL that is none":        {rules: []schemas.Rule{rulebook.Mock("m", "*", 200, "{}")}, url: "https://a b/", code: schemas.DenyURLInvalid},
	}, func(t *testing.T, tt testCase) {
		r, b, g := under(t, v1, v2)
		tt.want.RulesEtag = b.Put(t, tt.rules...)
		call := schemas.HTTPCall{Method: "GET", URL: here, AllowlistKey: tt.key}
		if tt.method != "" {
			call.Method = tt.method
		}
		if tt.url != "" {
			call.URL = tt.url
		}
		scope := evaluate.Scope{Tenant: "t", Only: tt.only}
		p, d := g.Check(call, scope)
		assert.Equal(t, tt.code, d.Code, d.Reason)
		assert.Equal(t, tt.code == "", p.Valid())
		assert.Equal(t, tt.code == "" && tt.want.Mocked == "", p.Valid() && p.Permit().Valid(), "with a mocked pass nothing can be sent")
		assert.Equal(t, r.InForce().Version(), d.Version)
		require.NotNil(t, d.Traffic)
		assert.Equal(t, tt.want, *d.Traffic)
		if tt.code == schemas.DenyRule {
			for _, id := range tt.want.Rules {
				assert.Contains(t, d.Reason, id)
			}
		}
		set, _, _ := b.InForce("t")
		_, judged := evaluate.Call(r.InForce(), set, call, scope, time.Now())
		assert.Equal(t, d, judged.Decision, "a preview says the same")
	})
}

// TestTooManyChanges of headers deny a call, and a hop.
func TestTooManyChanges(t *testing.T) {
	t.Parallel()
	_, b, g := under(t, entry("one"))
	changes := slices.Repeat([]schemas.HeaderChange{{Op: schemas.HeaderRemove, Name: "x-a"}}, schemas.MaxRuleHeaders)
	for pattern, whole := range map[string]bool{"https://up.example/b": false, "*": true} {
		rules := []schemas.Rule{rulebook.Answers("h", pattern, changes[0])}
		for i := range traffic.MaxChanges / schemas.MaxRuleHeaders {
			rules = append(rules, rulebook.Answers(fmt.Sprintf("h%d", i), pattern, changes...))
		}
		b.Put(t, rules...)
		p, d := g.Check(get(""), evaluate.Scope{})
		require.Equal(t, !whole, p.Valid())
		if p.Valid() {
			p, d = g.Redirect(p, "/b", 302, 1)
		}
		assert.False(t, p.Valid(), pattern)
		assert.Equal(t, schemas.DenyRule, d.Code, pattern)
	}
}

// TestUnreadableRules: nothing is sent as if there were no rules.
func TestUnreadableRules(t *testing.T) {
	t.Parallel()
	_, b, g := under(t, entry("one"))
	p, _ := g.Check(get(""), evaluate.Scope{})
	require.True(t, p.Valid())
	b.Break(errors.New("torn"))
	assert.True(t, g.Stale(p), "a pass of before is good for nothing")
	hop, d := g.Redirect(p, "/b", 302, 1)
	assert.False(t, hop.Valid())
	assert.Equal(t, schemas.DenyRule, d.Code)
	p, d = g.Check(get(""), evaluate.Scope{})
	assert.False(t, p.Valid())
	assert.Equal(t, schemas.DenyRule, d.Code)
	assert.NotContains(t, d.Reason, "torn")
}

// TestRenewOfShaped: another policy is asked about the call as the rules have made
// it, and no other rules are.
func TestRenewOfShaped(t *testing.T) {
	t.Parallel()
	first, second := entry("one"), policy.Entry{Name: "two", URLPrefix: "https://two.example/"}
	r, b, g := under(t, first, second)
	etag := b.Put(t, rulebook.Redirect("r", "https://up.example/a", "https://two.example/b"))
	p, _ := g.Check(get(""), evaluate.Scope{})
	require.True(t, p.Valid())
	assert.Equal(t, "https://two.example/b", p.Call().URL)
	b.Put(t)

	r.Enforce(t, second)
	fresh, d := g.Renew(p)
	require.True(t, fresh.Valid())
	assert.Equal(t, "two", d.Entry)
	assert.Equal(t, etag, d.Traffic.RulesEtag)
	assert.Equal(t, "r", d.Traffic.Redirected)
	assert.Equal(t, p.Call(), fresh.Call())
	assert.True(t, g.Stale(fresh))

	r.Enforce(t, first)
	gone, d, leave := g.Begin(p)
	leave()
	assert.False(t, gone.Valid())
	assert.Equal(t, schemas.DenyRule, d.Code)
	assert.Contains(t, d.Reason, "(r)")
	assert.Equal(t, "r", d.Traffic.Redirected)

	r.Enforce(t)
	_, d = g.Renew(p)
	assert.Equal(t, schemas.DenyHost, d.Code, "the rule is not why")
}

// TestNoAddressOfAnAgent: where a call to an agent goes is the configuration's.
func TestNoAddressOfAnAgent(t *testing.T) {
	t.Parallel()
	_, b, g := under(t, policy.Entry{Name: schemas.AgentEntry("T"), URLPrefix: "https://agent.example/agents/run/", Methods: []string{"POST"}, Agent: true})
	b.Put(t, rulebook.Redirect("r", "*://*/agents/run/stream", "https://agent.example/agents/run/sync"))
	call := schemas.HTTPCall{Method: "POST", URL: "https://agent.example/agents/run/stream", AllowlistKey: schemas.AgentEntry("T")}
	p, d := g.Check(call, evaluate.Scope{KeyRequired: true, Agent: true})
	require.True(t, p.Valid(), d.Reason)
	assert.Equal(t, "r", d.Traffic.Redirected)
	assert.Empty(t, d.Traffic.Target)
}

// TestRulesDoNotSteerAgentsAndModels: beside what the operator adds to calls to agents and models, rules set no header and no
// parameter that callers could not.
func TestRulesDoNotSteerAgentsAndModels(t *testing.T) {
	t.Parallel()
	const at = "https://up.example/v1/chat/completions"
	for _, key := range []string{schemas.AgentEntry("T"), schemas.ModelEntryPrefix + "m"} {
		_, b, g := under(t, policy.Entry{Name: key, URLPrefix: at, Methods: []string{"POST"}, Agent: true, Headers: map[string]string{"Authorization": "Bearer ${secret:KEY}"}})
		check := func(r schemas.Rule) schemas.Code {
			b.Put(t, r)
			_, d := g.Check(schemas.HTTPCall{Method: "POST", URL: at, AllowlistKey: key}, evaluate.Scope{KeyRequired: true, Agent: true})
			return d.Code
		}
		assert.Empty(t, check(rulebook.SetHeader("h", "*", "X-Request-Id", "1")))
		assert.Equal(t, schemas.DenyRule, check(rulebook.SetHeader("h", "*", "OpenAI-Organization", "org-x")), key)
		assert.Equal(t, schemas.DenyRule, check(rulebook.Redirect("r", at, at+"?account=x")), key)
	}
}

// TestCostOfCheck: a call costs its pass. A tenant without rules pays nothing for those of others, and one
// with rules that are not for the call pays for the mark that says so.
func TestCostOfCheck(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the whole process
	e := entry("one")
	e.Headers, e.CallerHeaders = nil, nil
	r, b, g := under(t, e)
	call, scope := get("one"), evaluate.Scope{Tenant: "t"}
	check := func() { _, _ = g.Check(call, scope) }
	bare := guard.New(r.InForce, nil)
	require.InDelta(t, 1, testing.AllocsPerRun(100, func() { _, _ = bare.Check(call, scope) }), 0)
	require.InDelta(t, 1, testing.AllocsPerRun(100, check), 0)
	b.Put(t, rulebook.Mock("m", "https://other.example/*", 200, ""))
	require.InDelta(t, 2, testing.AllocsPerRun(100, check), 0)
	p, _ := g.Check(call, scope)
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = g.Stale(p) }))
	b.Put(t, rulebook.SetHeader("h", "*", "X-A", "1"), rulebook.Delay("d", "*", 10))
	p, _ = g.Check(call, scope)
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = g.Stale(p) }), "nothing has changed since")
}

// TestRedirectCarriesNothingOfTheEntrys: a header that rules have taken from the call goes
// on no hop of it unasked, whether rules are there for that or not.
func TestRedirectCarriesNothingOfTheEntrys(t *testing.T) {
	t.Parallel()
	_, b, g := under(t, entry("one"))
	call := get("")
	call.Headers = []schemas.Header{{Name: "x-key", Value: "mine"}}
	_, d := g.Check(call, evaluate.Scope{})
	require.Equal(t, schemas.DenyHeader, d.Code)
	remove := rulebook.SetHeader("h", "https://up.example/a", "x-key", "")
	remove.Action.RequestHeaders = []schemas.HeaderChange{{Op: schemas.HeaderRemove, Name: "x-key"}}
	b.Put(t, remove)
	p, d := g.Check(call, evaluate.Scope{})
	require.True(t, p.Valid(), d.Reason)
	hop, d := g.Redirect(p, "/b", 302, 1)
	assert.False(t, hop.Valid())
	assert.Equal(t, schemas.DenyHeader, d.Code, "the rules are not why")
	remove.Match.URLPattern = "https://up.example/*"
	b.Put(t, remove)
	p, _ = g.Check(call, evaluate.Scope{})
	hop, d = g.Redirect(p, "/b", 302, 1)
	require.True(t, hop.Valid(), d.Reason)
	assert.Empty(t, hop.Call().Headers)
}
