package policy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/schemas"
)

const allowed schemas.Code = ""

func compile(tb testing.TB, c policy.Config) *policy.Policy {
	tb.Helper()
	p, err := policy.Compile(c)
	require.NoError(tb, err)
	return p
}

// shop is the policy that most cases are held against.
func shop(tb testing.TB) *policy.Policy {
	tb.Helper()
	return compile(tb, policy.Config{
		Entries: []policy.Entry{
			{Name: "shop", URLPrefix: "https://Shop.test/api/", Methods: []string{"get", "POST", "TRACE"}},
			{Name: "file", URLPrefix: "https://shop.test/robots", Methods: []string{"GET", "DELETE"}},
			{Name: "whole", URLPrefix: "http://shop.test:8080"},
			{Name: "open", URLPrefix: policy.AnyHost},
			{Name: "local", URLPrefix: "http://localhost:7000/", Network: "loopback"},
			{Name: "own", URLPrefix: "http://127.0.0.1:4222/", Network: "loopback"},
			{Name: "lan", URLPrefix: "http://10.1.2.3/", Network: "private", CIDRs: []string{"10.1.0.0/16", "169.254.0.0/16"}},
			{Name: "gate", URLPrefix: "https://gate.test/"},
		},
		SelfPorts: []uint16{4222, 8092},
		SelfHosts: []string{"gate.test", "localhost", "0.0.0.0"},
	})
}

func TestDecideURL(t *testing.T) {
	t.Parallel()
	p := shop(t)
	for _, group := range []struct {
		key  string
		code schemas.Code
		urls []string
	}{
		{"shop", allowed, []string{
			"https://shop.test/api/x", "HTTPS://SHOP.test:443/api/x?a=b&a=../..", "https://shop.test/api/",
		}},
		{"nobody", schemas.DenyKeyUnknown, []string{"https://shop.test/api/x", "\n"}},
		{"Shop", schemas.DenyKeyUnknown, []string{"https://shop.test/api/x"}},
		// scheme and userinfo
		{"shop", schemas.DenyScheme, []string{"http://shop.test/api/x", "gopher://shop.test/api/x", "file:///etc/passwd"}},
		{"whole", schemas.DenyScheme, []string{"https://shop.test:8080/"}},
		{"shop", schemas.DenyUserinfo, []string{"https://me@shop.test/api/x"}},
		{"shop", schemas.DenyHost, []string{"https://a.shop.test/api/x", "https://ashop.test/api/x"}},
		{"open", schemas.DenyHost, []string{"http://shop-.test/", "http://8.8.8.8./"}},
		{"open", allowed, []string{"http://8.8.8.8.name/", "http://a_b.test/"}},
		// port
		{"shop", schemas.DenyPort, []string{"https://shop.test:8443/api/x"}},
		{"whole", schemas.DenyPort, []string{"http://shop.test/"}},
		{"whole", allowed, []string{"http://shop.test:8080"}},
		{"open", schemas.DenyPort, []string{"http://shop.test:8080/"}},
		{"open", allowed, []string{"http://shop.test:443/"}},
		// path
		{"shop", schemas.DenyPath, []string{
			"https://shop.test/api", "https://shop.test", "https://shop.test/API/x", "https://shop.test/%61pi/x",
			"https://shop.test/api/..%c2%a0/b", // a no-break space: a server may trim it
			// A slash or a dot to some reader, what nobody sees, and what is no UTF-8.
			"https://shop.test/api/%ef%bc%8f", "https://shop.test/api/a%ef%b8%94", "https://shop.test/api/a%e2%81%88", "https://shop.test/api/..%cd%bea",
			"https://shop.test/api/%e2%80%8b", "https://shop.test/api/a%e3%85%a4", "https://shop.test/api/%e2%80%ae", "https://shop.test/api/%c2%85",
			"https://shop.test/api/%c0%ae%c0%ae/", "https://shop.test/api/%e0%80%ae", "https://shop.test/api/%ed%a0%80", "https://shop.test/api/a%25u002e",
		}},
		{"file", allowed, []string{"https://shop.test/robots", "https://shop.test/robots/", "https://shop.test/robots/a?b"}},
		{"file", schemas.DenyPath, []string{"https://shop.test/robots.txt", "https://shop.test/robots;a"}},
		// addresses in the URL
		{"open", schemas.DenyAddress, []string{
			"http://10.0.0.1/", "http://[::ffff:8.8.8.8]/", "http://localhost/", "http://a.localhost/",
		}},
		{"open", allowed, []string{"http://[2001:4860:0:0::8888]/"}},
		{"local", allowed, []string{"http://localhost:7000/"}},
		{"own", schemas.DenyAddress, []string{"http://127.0.0.1:4222/"}},
		{"lan", allowed, []string{"http://10.1.2.3/"}},
		{"gate", schemas.DenyAddress, []string{"https://gate.test/"}},
	} {
		for _, url := range group.urls {
			d := p.Decide(policy.Request{Key: group.key, KeyRequired: true, Method: "GET", URL: url})
			require.Equal(t, group.code, d.Code, "%s %s", group.key, url)
			require.Equal(t, group.code == allowed, d.Allowed, "%s %s", group.key, url)
			require.Equal(t, d.Code, d.Check.Code(), url)
			permit, ok := d.Permit()
			require.Equal(t, d.Allowed, ok)
			require.Equal(t, ok, permit.Valid())
			require.Equal(t, p.Version(), d.Version)
		}
	}
}

// TestBodySizes: the limit of what Weir takes is that of what it sends. What a model is asked was bounded at ingress.
func TestBodySizes(t *testing.T) {
	t.Parallel()
	p := compile(t, policy.Config{AllowedHosts: []string{"shop.test"}, MaxBody: 4096, Entries: []policy.Entry{
		{Name: "model:m", Agent: true, URLPrefix: "https://shop.test/", Methods: []string{"POST"}},
	}})
	for key, sizes := range map[string][2]int{"": {4096, 4097}, "model:m": {64 << 20, 66 << 20}} {
		for size, want := range map[int]schemas.Code{sizes[0]: allowed, sizes[1]: schemas.DenyBody} {
			d := p.Decide(policy.Request{Agent: key != "", Key: key, Method: "POST", URL: "https://shop.test/", HasBody: true, BodySize: size})
			require.Equal(t, want, d.Code, "%s %d", key, size)
		}
	}
}

func TestDecideMethodAndBody(t *testing.T) {
	t.Parallel()
	p := shop(t)
	for _, c := range []struct {
		method string
		size   int // -1: no body
		depth  int
		code   schemas.Code
	}{
		{"GET", -1, 0, allowed},
		{"get", -1, 0, allowed},
		{"pOsT", 1 << 20, 64, allowed},
		{"POST", 0, 0, allowed},
		{"POST", 1<<20 + 1, 0, schemas.DenyBody},
		{"POST", 10, 65, schemas.DenyBody},
		{"GET", 0, 0, schemas.DenyBody},
	} {
		d := p.Decide(policy.Request{
			Key: "shop", Method: c.method, URL: "https://shop.test/api/x",
			HasBody: c.size >= 0, BodySize: c.size, BodyDepth: c.depth,
		})
		require.Equal(t, c.code, d.Code, "%q %d %d", c.method, c.size, c.depth)
		if permit, ok := d.Permit(); ok {
			require.Equal(t, strings.ToUpper(c.method), permit.Method())
		}
	}
	for _, method := range []string{"", "PUT", "TRACE", "CONNECT", " GET", "GET\n", "PO\u017fT", "PURGE"} {
		d := p.Decide(policy.Request{Key: "shop", Method: method, URL: "https://shop.test/api/x"})
		require.Equal(t, schemas.DenyMethod, d.Code, "%q", method)
	}
}

// A request with everything wrong is mended step by step; each time the next
// check speaks.
func TestChecksKeepTheirOrder(t *testing.T) {
	t.Parallel()
	p := shop(t)
	r := policy.Request{
		Key: "nobody", Method: "PUT", URL: "ftp://me@other.test:1/../#",
		Headers: []schemas.Header{{Name: "Host", Value: "x"}}, HasBody: true, BodySize: 2 << 20,
	}
	for i, step := range []struct {
		code schemas.Code
		mend func()
	}{
		{schemas.DenyKeyUnknown, func() { r.Key = "own" }},
		{schemas.DenyURLInvalid, func() { r.URL = "ftp://me@other.test:1/../" }},
		{schemas.DenyScheme, func() { r.URL = "http://me@other.test:1/%2e/" }},
		{schemas.DenyUserinfo, func() { r.URL = "http://other.test:1/%2e/" }},
		{schemas.DenyHost, func() { r.URL = "http://127.0.0.1:1/%2e/" }},
		{schemas.DenyPort, func() { r.URL = "http://127.0.0.1:4222/%2e/" }},
		{schemas.DenyMethod, func() { r.Method = "GET" }},
		{schemas.DenyPath, func() { r.URL = "http://127.0.0.1:4222/" }},
		{schemas.DenyHeader, func() { r.Headers = nil }},
		{schemas.DenyBody, func() { r.HasBody = false }},
		{schemas.DenyAddress, func() {}},
	} {
		d := p.Decide(r)
		require.Equal(t, step.code, d.Code)
		require.Equal(t, strings.Fields("key url scheme userinfo host port method path header body address")[i], d.Check.String())
		step.mend()
	}
}

func TestDecideWithoutKey(t *testing.T) {
	t.Parallel()
	p := compile(t, policy.Config{
		Entries: []policy.Entry{
			{Name: "read", URLPrefix: "https://shop.test/api/"},
			{Name: "write", URLPrefix: "https://shop.test/api/", Methods: []string{"GET", "POST"}},
			{Name: "open", URLPrefix: "*"},
		},
		AllowedHosts: []string{"localhost", "127.0.0.1", "::1", ".cdn.test", "db.test:5000", "http://wiki.test/a"},
		SelfPorts:    []uint16{8092},
	})
	for _, c := range []struct {
		method, url, entry string
		code               schemas.Code
	}{
		{"GET", "https://shop.test/api/x", "read", allowed},
		{"POST", "https://shop.test/api/x", "write", allowed},
		{"GET", "https://elsewhere.test/", "open", allowed},
		{"DELETE", "http://localhost:3000/x", "host:localhost", allowed},
		{"GET", "http://localhost/x", "host:localhost", allowed}, // open fits but for the address
		{"GET", "http://127.0.0.1/x", "host:127.0.0.1", allowed},
		{"GET", "http://[::1]:3000/x", "host:::1", allowed},
		{"GET", "https://a.b.cdn.test:9000/x", "host:.cdn.test", allowed},
		{"GET", "https://cdn.test:9000/x", "", schemas.DenyPort},
		{"GET", "https://db.test:5000/x", "host:db.test:5000", allowed},
		{"GET", "http://wiki.test/a/b", "open", allowed},
		{"PUT", "http://wiki.test/a/b", "host:http://wiki.test/a", allowed},
		{"PUT", "http://wiki.test/ab", "host:http://wiki.test/a", schemas.DenyPath},
		{"GET", "http://localhost:8092/x", "host:localhost", schemas.DenyAddress},
		{"GET", "http://127.0.0.1:8092/x", "host:127.0.0.1", schemas.DenyAddress},
		{"GET", "http://127.0.0.2/x", "open", schemas.DenyAddress},
		{"GET", "not a url", "", schemas.DenyURLInvalid},
	} {
		d := p.Decide(policy.Request{Method: c.method, URL: c.url})
		require.Equal(t, c.code, d.Code, "%s %s", c.method, c.url)
		if c.entry != "" {
			require.Equal(t, c.entry, d.Entry, "%s %s", c.method, c.url)
		}
	}
	require.Equal(t, schemas.DenyKeyUnknown, p.Decide(policy.Request{Key: "host:localhost", Method: "GET", URL: "http://localhost/"}).Code)
	require.Equal(t, schemas.DenyKeyUnknown, p.Decide(policy.Request{KeyRequired: true, Method: "GET", URL: "http://localhost/"}).Code)

	none := compile(t, policy.Config{})
	d := none.Decide(policy.Request{Method: "GET", URL: "http://localhost/"})
	require.Equal(t, schemas.DenyHost, d.Code)
	require.Empty(t, d.Entry)
}

func TestFragmentMayBeDropped(t *testing.T) {
	t.Parallel()
	p := shop(t)
	for url, code := range map[string]schemas.Code{
		"https://shop.test/api/x#y":              allowed,
		"https://shop.test/api/x?a=/#y#z":        allowed,
		"https://shop.test#.other.test/api/":     schemas.DenyURLInvalid,
		"https://other.test#https://shop.test/a": schemas.DenyURLInvalid,
		"https://other.test/#//shop.test/api/":   schemas.DenyHost,
		"https://shop.test/api/x#\n":             schemas.DenyURLInvalid,
		"#":                                      schemas.DenyURLInvalid,
	} {
		d := p.Decide(policy.Request{Key: "shop", Method: "GET", URL: url, DropFragment: true})
		require.Equal(t, code, d.Code, url)
		if permit, ok := d.Permit(); ok {
			require.NotContains(t, permit.URL(), "#")
		}
	}
}

func TestZeroValuesDeny(t *testing.T) {
	t.Parallel()
	var p *policy.Policy
	d := p.Decide(policy.Request{Method: "GET", URL: "http://localhost/"})
	require.False(t, d.Allowed)
	require.NotEmpty(t, d.Reason)
	require.Empty(t, p.AllowedHosts())

	forged := policy.Decision{Decision: schemas.Decision{Allowed: true}}
	permit, ok := forged.Permit()
	require.False(t, ok)
	require.False(t, permit.Valid())
	require.Error(t, permit.CheckAddr(addr("8.8.8.8")))
	require.Error(t, permit.CheckAddrs(nil))
	require.False(t, permit.Redirect("/", 302, 1).Allowed)
	require.Empty(t, permit.URL()+permit.Host()+permit.RequestTarget()+permit.Authority()+permit.Entry()+permit.Version())
	require.Nil(t, permit.Added().Headers)
	require.Equal(t, schemas.ClassOnce, policy.Class("POST", true, permit))
}

const shadow = policy.ModeShadow

// A shadow entry changes nothing but the word beside the decision.
func TestShadowPermitsAndDeniesNothing(t *testing.T) {
	t.Parallel()
	entries := []policy.Entry{
		{Name: "read", URLPrefix: "https://shop.test/api/"},
		{Name: "write", URLPrefix: "https://shop.test/api/", Methods: []string{"POST"}, Mode: shadow},
		{Name: "read", URLPrefix: "https://shop.test/api/v2/", Mode: shadow},
		{Name: "pay", URLPrefix: "https://pay.test/", Methods: []string{"POST"}},
		{Name: "same", URLPrefix: "https://pay.test/", Methods: []string{"POST"}, Mode: shadow},
	}
	p := compile(t, policy.Config{Entries: entries, AllowedHosts: []string{"shop.test"}})
	enforced := compile(t, policy.Config{Entries: []policy.Entry{entries[0], entries[3]}, AllowedHosts: []string{"shop.test"}})

	allow := func(entry string) *schemas.Shadow { return &schemas.Shadow{Allowed: true, Entry: entry} }
	for _, c := range []struct {
		key, method, url string
		code             schemas.Code
		entry            string
		shadow           *schemas.Shadow // its reason is not compared
	}{
		{"read", "GET", "https://shop.test/api/v2/x", allowed, "read", nil},
		{"read", "GET", "https://shop.test/api/v1/x", allowed, "read", &schemas.Shadow{Code: schemas.DenyPath, Entry: "read"}},
		{"read", "POST", "https://shop.test/api/v2/x", schemas.DenyMethod, "read", nil},
		{"read", "GET", "https://shop.test/", schemas.DenyPath, "read", nil},
		{"write", "POST", "https://shop.test/api/x", schemas.DenyKeyUnknown, "", allow("write")},
		{"write", "GET", "https://shop.test/api/x", schemas.DenyKeyUnknown, "", &schemas.Shadow{Code: schemas.DenyMethod, Entry: "write"}},
		{"nobody", "POST", "https://shop.test/api/x", schemas.DenyKeyUnknown, "", nil},
		{"pay", "POST", "https://pay.test/", allowed, "pay", nil},
		// without key
		{"", "POST", "https://shop.test/api/x", allowed, "host:shop.test", allow("write")},
		{"", "GET", "https://shop.test/api/v1/x", allowed, "read", allow("host:shop.test")},
		{"", "POST", "https://pay.test/", allowed, "pay", nil},
		{"", "GET", "https://other.test/", schemas.DenyHost, "", nil},
		{"", "GET", "nonsense", schemas.DenyURLInvalid, "", nil},
	} {
		r := policy.Request{Key: c.key, Method: c.method, URL: c.url}
		d := p.Decide(r)
		require.Equal(t, c.code, d.Code, "%+v", c)
		require.Equal(t, c.entry, d.Entry, "%+v", c)
		permit, ok := d.Permit()
		require.Equal(t, c.code == allowed, ok)
		require.Equal(t, ok, permit.Valid())
		if c.shadow == nil {
			require.Nil(t, d.Shadow, "%+v", c)
		} else {
			require.NotNil(t, d.Shadow, "%+v", c)
			require.Equal(t, d.Shadow.Allowed, d.Shadow.Reason == "")
			got := *d.Shadow
			got.Reason = ""
			require.Equal(t, *c.shadow, got, "%+v", c)
		}

		without := enforced.Decide(r)
		require.Equal(t, without.Allowed, d.Allowed)
		require.Equal(t, without.Code, d.Code)
		require.Equal(t, without.Entry, d.Entry)
		require.Nil(t, without.Shadow)
	}
	require.Contains(t, p.Decide(policy.Request{Key: "write", Method: "POST", URL: "https://shop.test/api/x"}).Reason, "shadow")
	require.NotContains(t, p.Decide(policy.Request{Key: "nobody", Method: "POST", URL: "https://shop.test/api/x"}).Reason, "shadow")
	require.NotEqual(t, enforced.Version(), p.Version(), "who reads a version knows that shadows stood beside")
}

// A request limited to some entries sees those alone, in either table.
func TestOnly(t *testing.T) {
	t.Parallel()
	p := compile(t, policy.Config{Entries: []policy.Entry{
		{Name: "a", URLPrefix: "https://a.test/"},
		{Name: "b", URLPrefix: "https://a.test/", Methods: []string{"GET", "POST"}},
		{Name: "c", URLPrefix: "https://c.test/", Mode: shadow},
	}, AllowedHosts: []string{"a.test", "localhost"}})
	ask := func(key, method, url string, only ...string) policy.Decision {
		return p.Decide(policy.Request{Key: key, Method: method, URL: url, Only: only})
	}
	require.Equal(t, "a", ask("", "GET", "https://a.test/").Entry)
	require.Equal(t, "b", ask("", "GET", "https://a.test/", "b").Entry)
	require.Equal(t, "b", ask("b", "GET", "https://a.test/", "a", "b").Entry)
	require.Equal(t, "host:a.test", ask("", "PUT", "https://a.test/").Entry)
	require.Equal(t, schemas.DenyMethod, ask("", "PUT", "https://a.test/", "a", "b").Code, "allowed hosts are not in the list")
	require.Equal(t, schemas.DenyHost, ask("", "GET", "https://localhost/", "a", "host:localhost").Code, "and cannot be put there")
	require.Equal(t, schemas.DenyHost, ask("", "GET", "https://a.test/", "gone").Code)
	require.Nil(t, ask("", "GET", "https://c.test/", "a").Shadow)
	require.Equal(t, "c", ask("", "GET", "https://c.test/", "c").Shadow.Entry)

	require.Equal(t, "the token is limited to entries, and none of them covers this host; use a token for an entry that does", ask("", "GET", "https://c.test/", "a").Reason)
	port := ask("", "GET", "https://a.test:8443/", "a")
	require.Equal(t, schemas.DenyPort, port.Code)
	require.Equal(t, "the token is limited to entries, and none of them has this port; use a token for an entry that does", port.Reason)

	unknown, foreign := ask("nobody", "GET", "https://a.test/", "a"), ask("b", "GET", "https://a.test/", "a")
	require.Equal(t, schemas.DenyKeyUnknown, foreign.Code)
	require.Contains(t, foreign.Reason, "the token may not use this entry")
	require.Equal(t, unknown, foreign, "whether an entry exists is not told")
	require.Equal(t, schemas.DenyKeyUnknown, ask("a", "GET", "https://a.test/", "").Code)
}
