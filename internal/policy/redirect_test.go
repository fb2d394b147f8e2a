package policy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/schemas"
)

// TestEncodedSlashes: an entry may permit %2F, where neither form of the path leaves the prefix or could
// be resolved to another.
func TestEncodedSlashes(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]schemas.Code{
		"/v1/a%2Fb": allowed, "/v1/@scope%2fname/-/x": allowed, "/v1/refs/heads%2Fmain%2F": allowed,
		"/v1%2Fa": schemas.DenyPath, "/v1%2F..%2Fadmin": schemas.DenyPath, "/v1/..%2Fadmin": schemas.DenyPath, "/v1/a%2F..%2F..%2Fadmin": schemas.DenyPath,
		"/v1/%2Fa": schemas.DenyPath, "/v1/a%2F%2Fb": schemas.DenyPath, "/v1/a%2F/b": schemas.DenyPath, "/v1/a%252Fb": schemas.DenyPath,
		"/v1/a%2F..;x%2Fb": schemas.DenyPath, "/v1/a%5Cb": schemas.DenyPath, "/v1/a%2Fb%5C": schemas.DenyPath, "/v1/a%2F%00": schemas.DenyPath,
	} {
		r := policy.Request{Method: "GET", URL: "https://a.test" + path}
		e := policy.Entry{Name: "a", URLPrefix: "https://a.test/v1/"}
		require.Equal(t, schemas.DenyPath, compile(t, policy.Config{Entries: []policy.Entry{e}}).Decide(r).Code, path)
		e.EncodedSlashes = true
		d := compile(t, policy.Config{Entries: []policy.Entry{e}}).Decide(r)
		require.Equal(t, want, d.Code, path)
		if call, ok := d.Permit(); ok {
			require.Equal(t, "https://a.test"+path, call.URL(), "it is sent as it was written")
		}
	}
}

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

// narrow is a policy without an entry for any host.
func narrow(tb testing.TB) *policy.Policy {
	tb.Helper()
	return compile(tb, policy.Config{
		Entries: []policy.Entry{
			{Name: "api", URLPrefix: "https://api.test/v1/", Methods: []string{"GET", "POST"}},
			{Name: "eight", URLPrefix: "http://shop.test:8080/%C3%A9/x"},
			{Name: "six", URLPrefix: "https://[2606:4700::1111]/"},
			{Name: "rehearsed", URLPrefix: "https://shadow.test/", Mode: policy.ModeShadow},
			{Name: "agent:A", URLPrefix: "https://agent.test/", Methods: []string{"POST"}, Agent: true},
			{Name: "lo", URLPrefix: "http://127.0.0.1:9000/", Network: policy.NetworkLoopback},
			{Name: "self", URLPrefix: "http://127.0.0.1:7777/", Network: policy.NetworkLoopback},
			{Name: "owner", URLPrefix: "https://owner.test/", Query: map[string]string{"key": "v"}},
		},
		AllowedHosts: []string{".sub.test", "plain.test:81", "[2606:4700::2222]"},
		SelfPorts:    []uint16{7777}, SelfHosts: []string{"self.sub.test"},
	})
}

func TestReaches(t *testing.T) {
	t.Parallel()
	p := narrow(t)
	for _, group := range []struct {
		method         string
		whole, ofAgent bool
		want           bool
		urls           []string
	}{
		{"GET", false, false, true, []string{
			"", "https://", "http://shop.test:8080/%c", "http://shop.test:8080/%c3%a", "https://[2606:4700:0::1111]/", "https://any", "http://127.0.0.1:9000/",
		}},
		{"POST", false, false, true, []string{"https://API.test/", "https://api.test/v", "https://api.test/v1/..", "https://api.test/v1/x?", "https://api.test/v1/?q=%"}},
		{"post", false, false, true, []string{"https://api.test/v1/x%4"}},
		{"", true, false, true, []string{"https://api.test/v1/x", "https://api.test:443/v1/x?q"}},
		{"GET", true, false, true, []string{"http://shop.test:8080/%c3%a9/x", "https://owner.test/?k=v"}},
		{"DELETE", true, false, true, []string{"http://a.sub.test:65535/"}},

		{"GET", true, false, false, []string{
			"", "https://", "https://evil.test/", "https://api.tests", "https://api.test/admin", "https://api.test/v1", "https://api.test/v1/ x",
			"https://shadow.test/", "http://127.0.0.1:7777/", "https://owner.test/?key=v",
		}},
		{"GET", false, false, false, []string{
			"https://evil.test/", "http://api.test/", "https://api.test/admin", "https://api.test/V", "https://api.test/v1x", "https://api.test/v1/../",
			"https://api.test/v1//", "https://api.test/v1/%zz/", "https://api.test/v1?", "https://api.test?", "https://api.test/v1/..?",
			"https://user@api.test/v1/", "https://api.test./v1/", "https://[::]:x/", "https://shadow.test/", "http://127.0.0.1:7777/", "https://self.sub.test/",
			"https://169.254.169.254/", "http://plain.test:80/",
		}},
		{"PUT", false, false, false, []string{"https://api.test/v1/", "https://agent.test/"}},
		{"TRACE", false, false, false, []string{"https://a.sub.test/", ""}},
		{"POST", true, false, false, []string{"https://agent.test/x"}},

		{"post", false, true, true, []string{"", "https://other", "https://agent.test/"}}, // where agents are is not public
		{"", true, true, true, []string{"https://agent.test", "https://AGENT.test:443/x/?y"}},
		{"GET", false, true, false, []string{"https://agent", "https://agent.test/"}},
		{"POST", false, true, false, []string{"https://other.test/", "http://agent.test/", "https://api.test/v1/", "https://u@agent.test/"}},
		{"POST", true, true, false, []string{"https://agent", "https://other.test/"}},
	} {
		for _, url := range group.urls {
			assert.Equal(t, group.want, p.Reaches(group.method, url, group.whole, group.ofAgent), "%+v %s", group, url)
		}
	}
	assert.False(t, shop(t).Reaches("GET", "https://127.0.0.1/", false, false))
	assert.False(t, shop(t).Reaches("", "", false, true), "no agents")
	assert.False(t, (*policy.Policy)(nil).Reaches("", "", false, false))
}

// FuzzReaches: whatever is permitted is reached from each of its beginnings.
func FuzzReaches(f *testing.F) {
	for _, url := range []string{
		"https://api.test/v1/x?y#z", "HTTPS://API.test:443/v1/%41/", "http://shop.test:8080/%c3%A9/x/y", "https://[2606:4700:0:0::1111]?q", "http://[2606:4700::2222]:99/",
		"http://a.sub.test:70", "https://plain.test:81/?%41", "http://127.0.0.1:9000//", "https://any.test", "https://u@any.test/", "http://127.0.0.1:7777/", "https://owner.test/?key",
	} {
		f.Add("GET", url)
	}
	policies := []*policy.Policy{narrow(f), shop(f)}
	f.Fuzz(func(t *testing.T, method, url string) {
		if method == "" {
			return
		}
		for _, p := range policies {
			passes := p.Decide(policy.Request{Method: method, URL: url}).Allowed
			for i := range url {
				if i > 0 && i < strings.Index(url, "://")+len("://") {
					continue // no program prepares a part of a scheme
				}
				for _, m := range []string{method, ""} {
					if got := p.Reaches(m, url[:i], false, false); passes && !got {
						t.Fatalf("%s %q passes and %q does not lead there", m, url, url[:i])
					}
				}
			}
			if p.Reaches(method, url, true, false) {
				require.True(t, p.Reaches(method, url, false, false))
				require.True(t, p.Reaches("", url, true, false))
			} else if passes {
				t.Fatalf("%s %q passes", method, url)
			}
		}
	})
}
