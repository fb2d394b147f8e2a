package guard_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/internal/weirtest/rulebook"
	"weir/processors/guard"
	"weir/schemas"
)

// rules is a policy that a test can exchange.
type rules struct{ now atomic.Pointer[policy.Policy] }

func (r *rules) set(t *testing.T, entries ...policy.Entry) {
	t.Helper()
	p, err := policy.Compile(policy.Config{Entries: entries})
	require.NoError(t, err)
	r.now.Store(p)
}

func entry(name string) policy.Entry {
	return policy.Entry{
		Name: name, URLPrefix: "https://up.example/", Methods: []string{"GET", "POST"}, Redirects: 2,
		Headers:       map[string]string{"X-Key": "${secret:" + strings.ToUpper(name) + "}"},
		CallerHeaders: []string{"X-Own", "X-A"},
	}
}

func setup(t *testing.T, entries ...policy.Entry) (*rules, *guard.Guard) {
	t.Helper()
	r := &rules{}
	r.set(t, entries...)
	return r, guard.New(r.now.Load, nil)
}

func get(key string) schemas.HTTPCall {
	return schemas.HTTPCall{Method: "GET", URL: "https://up.example/a", AllowlistKey: key}
}

func TestScope(t *testing.T) {
	t.Parallel()
	_, g := setup(t, entry("one"), entry("two"))
	for name, tt := range map[string]struct {
		key   string
		scope guard.Scope
		entry string // empty: denied
	}{
		"any":                 {"", guard.Scope{}, "one"},
		"a key":               {"two", guard.Scope{}, "two"},
		"a key is required":   {"", guard.Scope{KeyRequired: true}, ""},
		"only the other":      {"", guard.Scope{Only: []string{"two"}}, "two"},
		"its own":             {"two", guard.Scope{Only: []string{"two"}}, "two"},
		"another's":           {"one", guard.Scope{Only: []string{"two"}}, ""},
		"what does not exist": {"", guard.Scope{Only: []string{"three"}}, ""},
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
	p, _ := g.Check(get(""), guard.Scope{})
	same, d := g.Renew(p)
	assert.True(t, same.SamePolicy(p))
	assert.Equal(t, p.Decision(), d)

	r.set(t, entry("two"))
	fresh, d := g.Renew(p)
	require.True(t, fresh.Valid())
	assert.False(t, fresh.SamePolicy(p))
	assert.Equal(t, "two", d.Entry)
	assert.Equal(t, map[string]string{"X-Key": "${secret:TWO}"}, fresh.Headers(), "the credentials are those of the entry that now lets it pass")
	assert.Equal(t, r.now.Load().Version(), fresh.Permit().Version())

	r.set(t)
	gone, d := g.Renew(fresh)
	assert.False(t, gone.Valid())
	assert.False(t, gone.SamePolicy(fresh))
	assert.Equal(t, schemas.DenyHost, d.Code)

	zero, d := g.Renew(guard.Pass{})
	assert.False(t, zero.Valid())
	assert.False(t, d.Allowed)
}

// TestRenewKeepsTheScope: what the asker may not use, no reload gives to it.
func TestRenewKeepsTheScope(t *testing.T) {
	t.Parallel()
	r, g := setup(t, entry("one"))
	p, _ := g.Check(get(""), guard.Scope{Only: []string{"one"}})
	r.set(t, entry("two"))
	fresh, d := g.Renew(p)
	assert.False(t, fresh.Valid(), "%+v", d)
}

// TestHopIsDecidedByThePolicyInForce: neither the pass of the call nor that of a
// hop outlives its policy, and a hop always knows the secrets that went before it.
func TestHopIsDecidedByThePolicyInForce(t *testing.T) {
	t.Parallel()
	r, g := setup(t, entry("one"))
	p, _ := g.Check(get("one"), guard.Scope{})
	hop, d := g.Hop(p, "/b", 302, 1)
	require.True(t, hop.Valid(), "%+v", d)
	assert.True(t, hop.Hop())
	assert.Equal(t, "https://up.example/b", hop.Call().URL)

	other := entry("one")
	other.Headers = map[string]string{"X-Key": "${secret:OTHER}"}
	r.set(t, other)
	fresh, d := g.Renew(hop)
	require.True(t, fresh.Valid(), "%+v", d)
	assert.Equal(t, r.now.Load().Version(), d.Version)
	assert.Equal(t, map[string]string{"X-Key": "${secret:ONE}"}, fresh.Headers(), "what was sent before the hop")

	none := entry("one")
	none.Redirects = 0
	r.set(t, none)
	_, d = g.Hop(p, "/b", 302, 1)
	assert.Equal(t, schemas.DenyRedirect, d.Code)
	_, d = g.Renew(hop)
	assert.Equal(t, schemas.DenyRedirect, d.Code)

	r.set(t)
	_, d = g.Hop(p, "/b", 302, 1)
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
		p, d := g.Check(schemas.HTTPCall{Method: "GET", URL: url, Headers: append([]schemas.Header{{Name: "Accept", Value: "*/*"}}, own...)}, guard.Scope{Tenant: "t"})
		require.True(t, p.Valid(), "%+v", d)
		return p
	}
	hop := func(url, location string) guard.Pass {
		p, d := g.Hop(ask(url), location, 302, 1)
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
		p, _ := g.Check(get(""), guard.Scope{})
		require.NoError(t, g.Settle(t.Context()), "nobody is on the way")

		early, _, leave := g.Begin(p)
		require.True(t, early.Valid())
		r.set(t)
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

// TestSettleGivesUp: a call that never begins is still waited for by the next reload.
func TestSettleGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, g := setup(t, entry("one"))
		p, _ := g.Check(get(""), guard.Scope{})
		_, _, leave := g.Begin(p)
		short, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, g.Settle(short), context.Canceled)
		require.ErrorIs(t, g.Settle(short), context.Canceled)
		var settled atomic.Bool
		go func() {
			assert.NoError(t, g.Settle(context.Background()))
			settled.Store(true)
		}()
		synctest.Wait()
		require.False(t, settled.Load())
		leave()
		synctest.Wait()
		require.True(t, settled.Load())
	})
}

func TestRequest(t *testing.T) {
	t.Parallel()
	c := schemas.HTTPCall{
		Method: "POST", URL: "https://up.example/", AllowlistKey: "k", IdempotencyKey: "i",
		Headers: []schemas.Header{{Name: "A", Value: "b"}}, Body: []byte(`"text"`), TextBody: true,
	}
	assert.Equal(t, policy.Request{
		Key: "k", KeyRequired: true, Only: []string{"k"}, Method: "POST", URL: c.URL, DropFragment: true, Headers: c.Headers,
		IdempotencyKey: "i", HasBody: true, BodySize: 6, Body: c.Body, TextBody: true,
	}, guard.Request(c, guard.Scope{KeyRequired: true, Only: []string{"k"}}))
	assert.True(t, guard.Request(c, guard.Scope{Agent: true}).Agent)
}
