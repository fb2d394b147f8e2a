package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/schemas"
)

func TestRenew(t *testing.T) {
	t.Parallel()
	base := policy.Entry{Name: "a", URLPrefix: "https://a.test/v1/", Redirects: 2}
	r := policy.Request{Key: "a", Method: "GET", URL: "https://a.test/v1/x", Headers: []schemas.Header{{Name: "X-Mine", Value: "1"}}}
	old := compile(t, policy.Config{Entries: []policy.Entry{base}})
	call, ok := old.Decide(r).Permit()
	require.True(t, ok)
	first, ok := call.Redirect("/v1/y", 302, 1).Permit()
	require.True(t, ok)
	second, ok := first.Redirect("/v1/z/2", 302, 2).Permit()
	require.True(t, ok)

	same, ok := old.Renew(call, policy.Request{}).Permit()
	require.True(t, ok, "its own permit needs no second decision")
	require.Equal(t, call, same)

	for name, c := range map[string]struct {
		change              func(*policy.Entry)
		call, first, second schemas.Code
	}{
		"nothing":         {func(*policy.Entry) {}, allowed, allowed, allowed},
		"more":            {func(e *policy.Entry) { e.Methods = []string{"GET", "POST"} }, allowed, allowed, allowed},
		"name":            {func(e *policy.Entry) { e.Name = "b" }, schemas.DenyKeyUnknown, schemas.DenyRedirect, schemas.DenyRedirect},
		"shadow":          {func(e *policy.Entry) { e.Mode = policy.ModeShadow }, schemas.DenyKeyUnknown, schemas.DenyRedirect, schemas.DenyRedirect},
		"method":          {func(e *policy.Entry) { e.Methods = []string{"POST"} }, schemas.DenyMethod, schemas.DenyRedirect, schemas.DenyRedirect},
		"path":            {func(e *policy.Entry) { e.URLPrefix += "z" }, schemas.DenyPath, schemas.DenyRedirect, allowed},
		"host":            {func(e *policy.Entry) { e.URLPrefix = "https://b.test/v1/" }, schemas.DenyHost, schemas.DenyRedirect, schemas.DenyRedirect},
		"fewer hops":      {func(e *policy.Entry) { e.Redirects = 1 }, allowed, allowed, schemas.DenyRedirect},
		"no hops":         {func(e *policy.Entry) { e.Redirects = 0 }, allowed, schemas.DenyRedirect, schemas.DenyRedirect},
		"caller's header": {func(e *policy.Entry) { e.Headers = map[string]string{"X-Mine": "theirs"} }, schemas.DenyHeader, schemas.DenyRedirect, schemas.DenyRedirect},
	} {
		e := base
		c.change(&e)
		p := compile(t, policy.Config{Entries: []policy.Entry{e}})
		for i, want := range []schemas.Code{c.call, c.first, c.second} {
			from := []policy.Permit{call, first, second}[i]
			d := p.Renew(from, r)
			require.Equal(t, want, d.Code, "%s, hop %d", name, i)
			require.Equal(t, p.Version(), d.Version)
			fresh, ok := d.Permit()
			require.Equal(t, want == allowed, ok)
			if ok {
				require.Equal(t, p.Version(), fresh.Version())
				require.Equal(t, from.URL(), fresh.URL())
				require.Equal(t, from.Method(), fresh.Method())
				again, ok := p.Renew(fresh, r).Permit()
				require.True(t, ok)
				require.Equal(t, fresh, again)
			}
		}
	}

	limited := r
	limited.Only = []string{"other"}
	next := compile(t, policy.Config{Entries: []policy.Entry{base}, SelfPorts: []uint16{1}})
	require.Equal(t, schemas.DenyKeyUnknown, next.Renew(call, limited).Code)
	require.Equal(t, schemas.DenyRedirect, next.Renew(first, limited).Code)

	require.False(t, next.Renew(policy.Permit{}, r).Allowed, "what was never permitted is not renewed")
	var none *policy.Policy
	require.False(t, none.Renew(call, r).Allowed)
}

// A fresh permit goes by the policy that gave it, for addresses and for what is
// added; a hop still carries nothing.
func TestRenewedPermitGoesByTheNewPolicy(t *testing.T) {
	t.Parallel()
	of := func(e policy.Entry) *policy.Policy {
		e.Name, e.URLPrefix, e.Redirects = "a", "http://a.test/", 1
		return compile(t, policy.Config{Entries: []policy.Entry{e}})
	}
	r := policy.Request{Method: "GET", URL: "http://a.test/x"}
	old := of(policy.Entry{Network: policy.NetworkPrivate, CIDRs: []string{"10.0.0.0/8"}})
	next := of(policy.Entry{Headers: map[string]string{"X-Key": "${secret:K}"}})
	call, _ := old.Decide(r).Permit()
	hop, _ := call.Redirect("/y", 302, 1).Permit()
	require.NoError(t, call.CheckAddr(addr("10.0.0.1")))
	require.NoError(t, hop.CheckAddr(addr("10.0.0.1")))

	fresh, ok := next.Renew(call, r).Permit()
	require.True(t, ok)
	require.Error(t, fresh.CheckAddr(addr("10.0.0.1")))
	require.Equal(t, map[string]string{"X-Key": "${secret:K}"}, fresh.Added().Headers)
	freshHop, ok := next.Renew(hop, r).Permit()
	require.True(t, ok)
	require.Error(t, freshHop.CheckAddr(addr("10.0.0.1")))
	require.Empty(t, freshHop.Added().Headers)
	require.Equal(t, schemas.DenyRedirect, freshHop.Redirect("/z", 302, 2).Code, "hops are still counted")
}

// Allowed hosts are renewed by their item: a named entry is no heir of theirs.
func TestRenewUnderAllowedHosts(t *testing.T) {
	t.Parallel()
	r := policy.Request{Method: "GET", URL: "http://a.test/x"}
	hosts := func(items ...string) *policy.Policy { return compile(t, policy.Config{AllowedHosts: items}) }
	call, ok := hosts("a.test").Decide(r).Permit()
	require.True(t, ok)
	require.True(t, hosts("b.test", "a.test").Renew(call, r).Allowed)
	require.True(t, hosts(".test").Renew(call, r).Allowed, "decided anew, by whatever covers it")
	require.Equal(t, schemas.DenyHost, hosts("b.test").Renew(call, r).Code)
	r.Only = []string{"a"}
	require.Equal(t, schemas.DenyHost, hosts("a.test", "b.test").Renew(call, r).Code)
}
