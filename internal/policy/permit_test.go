package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/schemas"
)

func TestPermitSendsWhatWasMatched(t *testing.T) {
	t.Parallel()
	p := compile(t, policy.Config{Entries: []policy.Entry{
		{Name: "https", URLPrefix: "https://a.test/"},
		{Name: "port", URLPrefix: "http://a.test:8080/"},
		{Name: "six", URLPrefix: "http://[2A00::0001]/"},
		{Name: "six-port", URLPrefix: "https://[2a00::1]:8443/"},
	}})
	for _, c := range []struct{ key, url, host, authority, target, canonical string }{
		{"https", "HTTPS://A.TEST:443", "a.test", "a.test", "/", "https://a.test/"},
		{"https", "https://a.test?", "a.test", "a.test", "/?", "https://a.test/?"},
		{"https", "https://a.test?x=%2f..", "a.test", "a.test", "/?x=%2f..", "https://a.test/?x=%2f.."},
		{"https", "https://a.test/%7Ea/%c3%A9?q=a+b&q=&[x]", "a.test", "a.test", "/%7Ea/%c3%A9?q=a+b&q=&[x]", "https://a.test/%7Ea/%c3%A9?q=a+b&q=&[x]"},
		{"port", "http://a.test:8080/x", "a.test", "a.test:8080", "/x", "http://a.test:8080/x"},
		{"six", "http://[2a00:0:0::1]:80/", "2a00::1", "[2a00::1]", "/", "http://[2a00::1]/"},
		{"six-port", "https://[2a00::1]:8443/?", "2a00::1", "[2a00::1]:8443", "/?", "https://[2a00::1]:8443/?"},
	} {
		pm := permit(t, p, c.key, c.url)
		require.Equal(t, c.host, pm.Host())
		require.Equal(t, c.authority, pm.Authority())
		require.Equal(t, c.target, pm.RequestTarget())
		require.Equal(t, c.canonical, pm.URL())
		require.Equal(t, c.key, pm.Entry())
		require.Equal(t, p.Version(), pm.Version())
		require.Equal(t, "GET", pm.Method())
		again := permit(t, p, c.key, pm.URL())
		require.Equal(t, pm, again, "the canonical form is its own")
	}
}

func TestPermitCarriesTheEntry(t *testing.T) {
	t.Parallel()
	headers := map[string]string{"Authorization": "Bearer ${secret:TOKEN}"}
	p := compile(t, policy.Config{Entries: []policy.Entry{{
		Name: "a", URLPrefix: "https://a.test/", Redirects: 2, Headers: headers, Methods: []string{"GET", "POST"},
		UpstreamIdempotency: &policy.Idempotency{TTL: time.Hour}, Limits: policy.Limits{Rate: "10/s", Concurrency: 4},
	}, {Name: "b", URLPrefix: "https://a.test/", Methods: []string{"POST"}}}})
	headers["Authorization"] = "changed"

	pm := permit(t, p, "a", "https://a.test/")
	require.Equal(t, map[string]string{"Authorization": "Bearer ${secret:TOKEN}"}, pm.Added().Headers)
	pm.Added().Headers["X"] = "y"
	require.NotContains(t, pm.Added().Headers, "X")
	require.Equal(t, 2, pm.Redirects())
	require.Equal(t, policy.Limits{Rate: "10/s", Concurrency: 4}, pm.Limits())
	require.Equal(t, uint16(443), pm.Port())
	require.Equal(t, "https", pm.Scheme())
	require.False(t, pm.Addr().IsValid())
	ttl, ok := pm.IdempotencyTTL()
	require.True(t, ok)
	require.Equal(t, time.Hour, ttl)

	plain, ok := p.Decide(policy.Request{Key: "b", Method: "POST", URL: "https://a.test/"}).Permit()
	require.True(t, ok)
	for _, c := range []struct {
		method string
		hasKey bool
		permit policy.Permit
		class  schemas.Class
	}{
		{"GET", false, plain, schemas.ClassSafe},
		{"HEAD", true, plain, schemas.ClassSafe},
		{"OPTIONS", false, plain, schemas.ClassSafe},
		{"PUT", false, plain, schemas.ClassIdempotent},
		{"DELETE", true, pm, schemas.ClassIdempotent},
		{"POST", true, pm, schemas.ClassKeyed},
		{"PATCH", true, pm, schemas.ClassKeyed},
		{"POST", false, pm, schemas.ClassOnce},
		{"POST", true, plain, schemas.ClassOnce},
		{"post", true, pm, schemas.ClassOnce},
		{"BREW", true, pm, schemas.ClassOnce},
	} {
		require.Equal(t, c.class, policy.Class(c.method, c.hasKey, c.permit), "%s %t", c.method, c.hasKey)
	}
}

func TestRedirect(t *testing.T) {
	t.Parallel()
	p := compile(t, policy.Config{Entries: []policy.Entry{
		{Name: "a", URLPrefix: "https://a.test/v1/", Redirects: 2, Methods: []string{"GET", "HEAD", "POST"}, Headers: map[string]string{"X": "y"}, CallerParams: []string{"*"}},
		{Name: "none", URLPrefix: "https://a.test/v1/"},
		{Name: "open", URLPrefix: "*", Redirects: 1},
	}})
	ask := func(key, method, url string) *policy.Permit {
		pm, ok := p.Decide(policy.Request{Key: key, Method: method, URL: url}).Permit()
		require.True(t, ok)
		return &pm
	}
	from := ask("a", "GET", "https://a.test/v1/dir/start?q=1")
	for location, want := range map[string]string{
		"https://a.test/v1/next":     "https://a.test/v1/next",
		"HTTPS://A.test:443/v1/next": "https://a.test/v1/next",
		"//a.test/v1/next?x":         "https://a.test/v1/next?x",
		"/v1/next":                   "https://a.test/v1/next",
		"next":                       "https://a.test/v1/dir/next",
		"?p=2":                       "https://a.test/v1/dir/start?p=2",
		"":                           "", "#x": "", "/v1/next#x": "", "/admin": "", "/": "", "..": "", "../x": "", "/v1/%2e%2e/x": "", "//b.test/v1/": "", "///v1/x": "",
		"http://a.test/v1/x": "", "https://a.test:8443/v1/x": "", "https://a.a.test/v1/x": "", "https://me@a.test/v1/x": "",
		"https:a.test/v1/x": "", "https:/a.test/v1/x": "", "javascript:1": "", "\\\\b.test": "", "/\\b.test": "", "/v1/\r\nX: y": "", "/v1/\u00e9": "", "//": "",
		"https://a.test./v1/x": "",
	} {
		d := from.Redirect(location, 302, 1)
		pm, ok := d.Permit()
		if want == "" {
			require.False(t, ok, "%q", location)
			require.Equal(t, schemas.DenyRedirect, d.Code, "%q", location)
			require.Equal(t, "a", d.Entry)
			continue
		}
		require.True(t, ok, "%q: %s", location, d.Reason)
		require.Equal(t, want, pm.URL())
		require.Empty(t, pm.Added().Headers, "no credential travels on")
		require.Error(t, pm.CheckAddr(addr("10.0.0.1")))
	}

	for _, status := range []int{301, 302, 303, 307, 308} {
		require.True(t, policy.IsRedirect(status))
		require.True(t, from.Redirect("/v1/x", status, 1).Allowed)
	}
	for _, status := range []int{200, 300, 304, 305, 306, 309, 404} {
		require.False(t, policy.IsRedirect(status))
		require.Equal(t, schemas.DenyRedirect, from.Redirect("/v1/x", status, 1).Code)
	}
	require.True(t, from.Redirect("/v1/x", 302, 2).Allowed)
	require.False(t, from.Redirect("/v1/x", 302, 3).Allowed)
	require.False(t, from.Redirect("/v1/x", 302, 0).Allowed)
	require.False(t, ask("a", "POST", "https://a.test/v1/x").Redirect("/v1/x", 307, 1).Allowed)
	require.False(t, ask("none", "GET", "https://a.test/v1/x").Redirect("/v1/x", 302, 1).Allowed)

	head, ok := ask("a", "HEAD", "https://a.test/v1/x").Redirect("/v1/y", 303, 1).Permit()
	require.True(t, ok)
	require.Equal(t, "HEAD", head.Method())

	open := ask("open", "GET", "http://b.test/")
	require.True(t, open.Redirect("https://c.test/x", 302, 1).Allowed)
	require.Equal(t, schemas.DenyRedirect, open.Redirect("http://127.0.0.1/", 302, 1).Code)
	require.Equal(t, schemas.DenyRedirect, open.Redirect("http://169.254.169.254/", 302, 1).Code)
	require.Equal(t, schemas.DenyRedirect, open.Redirect("http://c.test:22/", 302, 1).Code)
}

// TestCarry holds headers that were changed behind a hop's decision against the
// same list as those of a call.
func TestCarry(t *testing.T) {
	t.Parallel()
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{{
		Name: "up", URLPrefix: "https://up.example/", Redirects: 1, Headers: map[string]string{"X-Own": "${secret:O}"}, CallerHeaders: []string{"X-Named"},
	}}})
	require.NoError(t, err)
	first, ok := p.Decide(policy.Request{Method: "GET", URL: "https://up.example/a"}).Permit()
	require.True(t, ok)
	hop, ok := first.Redirect("/b", 302, 1).Permit()
	require.True(t, ok)
	for name, allowed := range map[string]bool{"X-Any": false, "X-Named": true, "Accept-Language": true, "x-own": false, "Authorization": false, "Host": false, "Range": false, "a b": false} {
		d := hop.Carry([]schemas.Header{{Name: name, Value: "v"}})
		assert.Equal(t, allowed, d.Allowed, name)
		permit, _ := d.Permit()
		assert.Equal(t, allowed, permit.Valid(), name)
		if allowed {
			assert.Equal(t, hop, permit)
		} else {
			assert.Equal(t, schemas.DenyHeader, d.Code, name)
			assert.Equal(t, "up", d.Entry)
		}
	}
	assert.False(t, new(policy.Permit).Carry(nil).Allowed)
}

// TestLeads: a Location is made whole against the URL that answered, and not checked.
func TestLeads(t *testing.T) {
	t.Parallel()
	p := permit(t, compile(t, policy.Config{Entries: []policy.Entry{{Name: "a", URLPrefix: "https://a.test:8443/"}}}), "a", "https://a.test:8443/x/y?q=1")
	for location, want := range map[string]string{
		"": "", "z": "https://a.test:8443/x/z", "/z": "https://a.test:8443/z", "?p=2": "https://a.test:8443/x/y?p=2", "../z": "https://a.test:8443/x/../z",
		"//b.test/z": "https://b.test/z", "http://b.test/z": "http://b.test/z",
	} {
		require.Equal(t, want, p.Leads(location), location)
	}
	require.Empty(t, new(policy.Permit).Leads("/z"))
}
