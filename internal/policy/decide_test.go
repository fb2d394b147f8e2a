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
	for _, c := range []struct {
		key, url string
		code     schemas.Code
	}{
		{"shop", "https://shop.test/api/x", allowed},
		{"shop", "HTTPS://SHOP.test:443/api/x?a=b&a=../..", allowed},
		{"shop", "https://shop.test/api/", allowed},
		{"nobody", "https://shop.test/api/x", schemas.DenyKeyUnknown},
		{"Shop", "https://shop.test/api/x", schemas.DenyKeyUnknown},
		{"nobody", "\n", schemas.DenyKeyUnknown},

		// the grammar
		{"shop", "", schemas.DenyURLInvalid},
		{"shop", "https:", schemas.DenyURLInvalid},
		{"shop", "https://", schemas.DenyURLInvalid},
		{"shop", "https:///api/x", schemas.DenyURLInvalid},
		{"shop", "https://?x", schemas.DenyURLInvalid},
		{"shop", "shop.test/api/x", schemas.DenyURLInvalid},
		{"shop", "//shop.test/api/x", schemas.DenyURLInvalid},
		{"shop", "1https://shop.test/api/x", schemas.DenyURLInvalid},
		{"shop", "https:shop.test/api/x", schemas.DenyURLInvalid},
		{"shop", " https://shop.test/api/x", schemas.DenyURLInvalid},
		{"shop", "https://shop.test/api/x\x7f", schemas.DenyURLInvalid},
		{"shop", "https://shop.test/api/\u00e9", schemas.DenyURLInvalid},
		{"shop", "https://shop.test/api/{x}", schemas.DenyURLInvalid},
		{"shop", "https://shop.test/api/x?q=^", schemas.DenyURLInvalid},
		{"shop", "https://shop.test/api/%zz", schemas.DenyURLInvalid},
		{"shop", "https://shop.test/api/x?q=%a", schemas.DenyURLInvalid},
		{"shop", "https://shop.test/api/x#y", schemas.DenyURLInvalid},
		{"shop", "https://shop.test\\@other.test/api/", schemas.DenyURLInvalid},
		{"shop", "https://shop.test%2eother.test/api/", schemas.DenyURLInvalid},
		{"shop", "https://shop.test=/api/x", schemas.DenyURLInvalid},
		{"shop", "https://shop..test/api/x", schemas.DenyURLInvalid},
		{"shop", "https://.shop.test/api/x", schemas.DenyURLInvalid},
		{"shop", "https://./api/x", schemas.DenyURLInvalid},
		{"shop", "https://shop.test../api/x", schemas.DenyURLInvalid},
		{"shop", "https://" + strings.Repeat("a", 64) + "/", schemas.DenyURLInvalid},
		{"shop", "https://" + strings.Repeat("a.", 127) + "a/", schemas.DenyURLInvalid},
		{"shop", "https://shop.test:/api/x", schemas.DenyURLInvalid},
		{"shop", "https://shop.test:0/api/x", schemas.DenyURLInvalid},
		{"shop", "https://shop.test:00443/api/x", schemas.DenyURLInvalid},
		{"shop", "https://shop.test:70000/api/x", schemas.DenyURLInvalid},
		{"shop", "https://shop.test:+443/api/x", schemas.DenyURLInvalid},
		{"open", "http://[::1/", schemas.DenyURLInvalid},
		{"open", "http://[]/", schemas.DenyURLInvalid},
		{"open", "http://[1.2.3.4]/", schemas.DenyURLInvalid},
		{"open", "http://[fe80::1%251]/", schemas.DenyURLInvalid},
		{"open", "http://[::1]80/", schemas.DenyURLInvalid},
		{"shop", "https://shop.test/api/" + strings.Repeat("a", 8<<10-22), allowed},
		{"shop", "https://shop.test/api/" + strings.Repeat("a", 8<<10-21), schemas.DenyURLInvalid},

		// scheme and userinfo
		{"shop", "http://shop.test/api/x", schemas.DenyScheme},
		{"whole", "https://shop.test:8080/", schemas.DenyScheme},
		{"shop", "gopher://shop.test/api/x", schemas.DenyScheme},
		{"shop", "file:///etc/passwd", schemas.DenyScheme},
		{"shop", "http\u017f://shop.test/api/x", schemas.DenyURLInvalid},
		{"shop", "https://me@shop.test/api/x", schemas.DenyUserinfo},
		{"shop", "https://shop.test@other.test/api/x", schemas.DenyUserinfo},
		{"shop", "https://@shop.test/api/x", schemas.DenyUserinfo},

		// host
		{"shop", "https://other.test/api/x", schemas.DenyHost},
		{"shop", "https://shop.test.other.test/api/x", schemas.DenyHost},
		{"shop", "https://a.shop.test/api/x", schemas.DenyHost},
		{"shop", "https://ashop.test/api/x", schemas.DenyHost},
		{"shop", "https://shop.test./api/x", schemas.DenyHost},
		{"open", "http://shop-.test/", schemas.DenyHost},
		{"open", "http://134744072/", schemas.DenyHost},
		{"open", "http://8.8.2056/", schemas.DenyHost},
		{"open", "http://010.8.8.8/", schemas.DenyHost},
		{"open", "http://0X8.8.8.8/", schemas.DenyHost},
		{"open", "http://8.8.8.0x8/", schemas.DenyHost},
		{"open", "http://name.0x/", schemas.DenyHost},
		{"open", "http://8.8.8.8.8/", schemas.DenyHost},
		{"open", "http://8.8.8.256/", schemas.DenyHost},
		{"open", "http://8.8.8.8./", schemas.DenyHost},
		{"open", "http://8.8.8.8/", allowed},
		{"open", "http://8.8.8.8.name/", allowed},
		{"open", "http://a_b.test/", allowed},

		// port
		{"shop", "https://shop.test:8443/api/x", schemas.DenyPort},
		{"whole", "http://shop.test/", schemas.DenyPort},
		{"whole", "http://shop.test:8080", allowed},
		{"open", "http://shop.test:8080/", schemas.DenyPort},
		{"open", "http://shop.test:443/", allowed},

		// path
		{"shop", "https://shop.test/api", schemas.DenyPath},
		{"shop", "https://shop.test", schemas.DenyPath},
		{"shop", "https://shop.test/API/x", schemas.DenyPath},
		{"shop", "https://shop.test/%61pi/x", schemas.DenyPath},
		{"file", "https://shop.test/robots", allowed},
		{"file", "https://shop.test/robots/", allowed},
		{"file", "https://shop.test/robots/a?b", allowed},
		{"file", "https://shop.test/robots.txt", schemas.DenyPath},
		{"file", "https://shop.test/robots;a", schemas.DenyPath},

		// addresses in the URL
		{"open", "http://10.0.0.1/", schemas.DenyAddress},
		{"open", "http://[::ffff:8.8.8.8]/", schemas.DenyAddress},
		{"open", "http://[2001:4860:0:0::8888]/", allowed},
		{"open", "http://localhost/", schemas.DenyAddress},
		{"open", "http://a.localhost/", schemas.DenyAddress},
		{"local", "http://localhost:7000/", allowed},
		{"own", "http://127.0.0.1:4222/", schemas.DenyAddress},
		{"lan", "http://10.1.2.3/", allowed},
		{"gate", "https://gate.test/", schemas.DenyAddress},
	} {
		d := p.Decide(policy.Request{Key: c.key, KeyRequired: true, Method: "GET", URL: c.url})
		require.Equal(t, c.code, d.Code, "%s %s", c.key, c.url)
		require.Equal(t, c.code == allowed, d.Allowed, "%s %s", c.key, c.url)
		require.Equal(t, d.Code, d.Check.Code(), c.url)
		permit, ok := d.Permit()
		require.Equal(t, d.Allowed, ok)
		require.Equal(t, ok, permit.Valid())
		require.Equal(t, p.Version(), d.Version)
	}
}

func TestDecidePath(t *testing.T) {
	t.Parallel()
	p := shop(t)
	for path, code := range map[string]schemas.Code{
		"a/b//":         schemas.DenyPath,
		"/":             schemas.DenyPath,
		".":             schemas.DenyPath,
		"..":            schemas.DenyPath,
		"a/./b":         schemas.DenyPath,
		"%2e":           schemas.DenyPath,
		"a/.%2E;v=1/b":  schemas.DenyPath,
		"..%3bx/b":      schemas.DenyPath,
		"..%3f/b":       schemas.DenyPath,
		".%23x/b":       schemas.DenyPath,
		"..%20/b":       schemas.DenyPath,
		"a%2fb":         schemas.DenyPath,
		"a%5Cb":         schemas.DenyPath,
		"a%00":          schemas.DenyPath,
		"a%0d%0ab":      schemas.DenyPath,
		"a%7f":          schemas.DenyPath,
		"a%252e":        schemas.DenyPath,
		"a%25u002e":     schemas.DenyPath,
		"a%ff":          schemas.DenyPath,
		"%c0%ae%c0%ae/": schemas.DenyPath,
		"%e0%80%ae":     schemas.DenyPath,
		"%ed%a0%80":     schemas.DenyPath,
		"%ef%bc%8f":     schemas.DenyPath, // full-width slash
		"%e2%80%8b":     schemas.DenyPath, // zero width space
		"%c2%85":        schemas.DenyPath, // next line
		"%e2%80%ae":     schemas.DenyPath, // right-to-left override
		"..%cd%bea":     schemas.DenyPath, // Greek question mark, a semicolon after normalisation
		"a%ef%b8%94":    schemas.DenyPath, // vertical semicolon
		"a%e2%81%88":    schemas.DenyPath, // question and exclamation mark
		"a%e3%85%a4":    schemas.DenyPath, // Hangul filler, which nobody sees
		"..%c2%a0/b":    schemas.DenyPath, // no-break space

		"":                allowed,
		"a/":              allowed,
		"...":             allowed,
		".well-known/x":   allowed,
		"a;b=1/c":         allowed,
		";/a":             allowed,
		"100%25":          allowed,
		"100%25z1":        allowed,
		"a%20b":           allowed,
		"%e6%97%a5":       allowed,
		"a%3fb%23":        allowed,
		"x,y:z@w!$&'()*+": allowed,
		"[a]":             allowed,
	} {
		d := p.Decide(policy.Request{Key: "shop", Method: "GET", URL: "https://shop.test/api/" + path})
		require.Equal(t, code, d.Code, "%q", path)
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
		{"", -1, 0, schemas.DenyMethod},
		{"PUT", -1, 0, schemas.DenyMethod},
		{"TRACE", -1, 0, schemas.DenyMethod},
		{"CONNECT", -1, 0, schemas.DenyMethod},
		{" GET", -1, 0, schemas.DenyMethod},
		{"GET\n", -1, 0, schemas.DenyMethod},
		{"PO\u017fT", -1, 0, schemas.DenyMethod},
		{"PURGE", -1, 0, schemas.DenyMethod},
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
	for _, step := range []struct {
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
	require.False(t, permit.Hop("/", 302, 1).Allowed)
	require.Empty(t, permit.URL()+permit.Host()+permit.RequestTarget()+permit.Authority()+permit.Entry()+permit.Version())
	require.Nil(t, permit.Headers())
	require.Equal(t, schemas.ClassOnce, policy.Class("POST", true, permit))
}

// A reason tells what was wrong without saying what was sent.
func TestReasonsHoldNoContent(t *testing.T) {
	t.Parallel()
	p := shop(t)
	const canary = "canary77"
	for _, r := range []policy.Request{
		{Key: canary, Method: "GET", URL: "https://shop.test/api/"},
		{Key: "shop", Method: canary, URL: "https://shop.test/api/"},
		{Key: "shop", Method: "GET", URL: canary},
		{Key: "shop", Method: "GET", URL: canary + "://shop.test/"},
		{Key: "shop", Method: "GET", URL: "https://" + canary + ".test/api/"},
		{Key: "shop", Method: "GET", URL: "https://" + canary + "@shop.test/api/"},
		{Key: "shop", Method: "GET", URL: "https://shop.test/" + canary},
		{Key: "shop", Method: "GET", URL: "https://shop.test/api/", Headers: []schemas.Header{{Name: "Proxy-" + canary, Value: canary}}},
		{Key: "shop", Method: "GET", URL: "https://shop.test/api/", IdempotencyKey: canary + "\n"},
	} {
		d := p.Decide(r)
		require.False(t, d.Allowed)
		require.NotContains(t, d.Reason, canary)
		require.Contains(t, d.Reason, " ")
	}
}

// What Split refuses, Decide denies under an entry for any host, and the other way
// round where nothing but the form is wrong.
func TestSplitIsDecidesForm(t *testing.T) {
	t.Parallel()
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{{Name: "any", URLPrefix: policy.AnyHost}}})
	require.NoError(t, err)
	for _, c := range []struct {
		url             string
		readable, whole bool
	}{
		{"https://a.example/x?y", true, true},
		{"https://A.example", true, true},
		{"http://[2606:4700::1111]:80/", true, true},
		{"http://8.8.8.8/", true, true},
		{"https://u@a.example/", true, false},
		{"https://@a.example/", true, false},
		{"https://a.example./", true, false},
		{"https://a-.example/", true, false},
		{"https://2130706433/", true, false},
		{"https://1.1/", true, false},
		{"https://a.example/../", true, false},
		{"https://a.example/%2E.", true, false},
		{"https://a.example//", true, false},
		{"https://a.example/%2f", true, false},
		{"https://a.example/%c0%af", true, false},
		{"https://a.example/%", false, false},
		{"https://a..example/", false, false},
		{"https://a.example:80:80/", false, false},
		{"https://a.example/#x", false, false},
		{"ftp://a.example/", false, false},
		{"", false, false},
	} {
		_, whole := policy.Split(c.url, false)
		require.Equal(t, c.whole, whole, c.url)
		require.Equal(t, c.readable, policy.Readable(c.url), c.url)
		require.Equal(t, c.whole, p.Decide(policy.Request{Method: "GET", URL: c.url}).Allowed, c.url)
	}
	_, whole := policy.Split("https://a.example/#x", true)
	require.True(t, whole)
}

func TestAuthority(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][2]string{
		"http://A.example/":        {"a.example", "a.example"},
		"http://a.example:80/":     {"a.example", "a.example"},
		"https://a.example:80/":    {"a.example", "a.example:80"},
		"https://[0::1]:443/":      {"[::1]", "[::1]"},
		"http://[::1]:443/":        {"[::1]", "[::1]:443"},
		"http://[::ffff:1.2.3.4]/": {"[::ffff:1.2.3.4]", "[::ffff:1.2.3.4]"},
		"http://1.2.3.4:81/":       {"1.2.3.4", "1.2.3.4:81"},
	} {
		parts, ok := policy.Split(url, false)
		require.True(t, ok, url)
		require.Equal(t, want, [2]string{parts.HostText(), parts.Authority()}, url)
	}
}
