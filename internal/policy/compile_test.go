package policy_test

import (
	"cmp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/policy"
)

func TestCompileNamesEntryAndKey(t *testing.T) {
	t.Parallel()
	ok := policy.Entry{Name: "a", URLPrefix: "https://a.test/"}
	for want, change := range map[string]func(*policy.Entry){
		`entry 1: name: missing`:                func(e *policy.Entry) { e.Name = "" },
		`entry 1: name: must be`:                func(e *policy.Entry) { e.Name = "a\nb" },
		`entry 1: name: "host:" is kept`:        func(e *policy.Entry) { e.Name = "host:a" },
		`entry "a": url_prefix: missing`:        func(e *policy.Entry) { e.URLPrefix = "" },
		`entry "a": url_prefix: the url has no`: func(e *policy.Entry) { e.URLPrefix = "a.test" },
		`entry "a": url_prefix: only http`:      func(e *policy.Entry) { e.URLPrefix = "ftp://a.test" },
		`entry "a": url_prefix: it carries`:     func(e *policy.Entry) { e.URLPrefix = "http://me:pw@a.test" },
		`entry "a": url_prefix: it has a query`: func(e *policy.Entry) { e.URLPrefix = "http://a.test/?" },
		`entry "a": url_prefix: the url has a`:  func(e *policy.Entry) { e.URLPrefix = "http://a.test/#x" },
		`entry "a": url_prefix: the path has`:   func(e *policy.Entry) { e.URLPrefix = "http://a.test/../b" },
		`entry "a": url_prefix: the host ends`:  func(e *policy.Entry) { e.URLPrefix = "http://a.test./" },
		`entry "a": url_prefix: the host holds`: func(e *policy.Entry) { e.URLPrefix = "http://a+.a.test/" },
		`entry "a": url_prefix: wildcards in a`: func(e *policy.Entry) { e.URLPrefix = "http://*.a.test/" },
		`entry "a": methods: "GTE"`:             func(e *policy.Entry) { e.Methods = []string{"GTE"} },
		`entry "a": methods: empty`:             func(e *policy.Entry) { e.Methods = []string{} },
		`entry "a": network: "lan"`:             func(e *policy.Entry) { e.Network = "lan" },
		`entry "a": network: an entry for any`:  func(e *policy.Entry) { e.URLPrefix = "*"; e.Network = "loopback" },
		`entry "a": cidrs: missing`:             func(e *policy.Entry) { e.Network = "private" },
		`entry "a": cidrs: only a private`:      func(e *policy.Entry) { e.CIDRs = []string{"10.0.0.0/8"} },
		`entry "a": cidrs: "10.0.0.1/8"`:        func(e *policy.Entry) { e.Network = "private"; e.CIDRs = []string{"10.0.0.1/8"} },
		`entry "a": redirects: 4`:               func(e *policy.Entry) { e.Redirects = 4 },
		`entry "a": upstream_idempotency`:       func(e *policy.Entry) { e.UpstreamIdempotency = &policy.Idempotency{} },
		`entry "a": headers: "a b"`:             func(e *policy.Entry) { e.Headers = map[string]string{"a b": ""} },
		`entry "a": headers: Host`:              func(e *policy.Entry) { e.Headers = map[string]string{"Host": "x"} },
		`entry "a": headers: Content_Length`:    func(e *policy.Entry) { e.Headers = map[string]string{"Content_Length": "1"} },
		`entry "a": headers: Idempotency-Key`:   func(e *policy.Entry) { e.Headers = map[string]string{"Idempotency-Key": "1"} },
		`entry "a": headers: the value of X`:    func(e *policy.Entry) { e.Headers = map[string]string{"X": "a\r\nb"} },
		`X has a placeholder`:                   func(e *policy.Entry) { e.Headers = map[string]string{"X": "${secrt:A}"} },
		`entry "a": headers: an entry for any`:  func(e *policy.Entry) { e.URLPrefix = "*"; e.Headers = map[string]string{"X": "a"} },
		`query: k`:                              func(e *policy.Entry) { e.Query = map[string]string{"k.a": "", "k_A": ""} },
		`body: k`:                               func(e *policy.Entry) { e.Body = map[string]string{"ka": "", "kA": ""} },
		`appears twice`:                         func(e *policy.Entry) { e.Headers = map[string]string{"X-A": "", "x_a": ""} },
		`entry "a": limits: rate`:               func(e *policy.Entry) { e.Limits.Rate = "10/day" },
		`entry "a": limits: concurrency`:        func(e *policy.Entry) { e.Limits.Concurrency = -1 },
		`entry "a": mode: "dry"`:                func(e *policy.Entry) { e.Mode = "dry" },
		`entry 1: name: must be at most 128 l`:  func(e *policy.Entry) { e.Name = strings.Repeat("a", 129) },
		`Y has a placeholder`: func(e *policy.Entry) {
			e.Headers = map[string]string{"Y": "${secret:" + strings.Repeat("A", 129) + "}"}
		},
		`entry "a": query: an entry for any`: func(e *policy.Entry) { e.URLPrefix = "*"; e.Query = map[string]string{"k": "v"} },
		`entry "a": query: "a&b"`:            func(e *policy.Entry) { e.Query = map[string]string{"a&b": "v"} },
		`entry "a": query: ""`:               func(e *policy.Entry) { e.Query = map[string]string{"": "v"} },
		`entry "a": query: "a%62"`:           func(e *policy.Entry) { e.Query = map[string]string{"a%62": "v"} },
		`query: the value of k is not`:       func(e *policy.Entry) { e.Query = map[string]string{"k": "a\nb"} },
		`query: the value of k has a`:        func(e *policy.Entry) { e.Query = map[string]string{"k": "${env:K}"} },
		`entry "a": body: an entry for any`:  func(e *policy.Entry) { e.URLPrefix = "*"; e.Body = map[string]string{"k": "v"} },
		`entry "a": body: "a\"b"`:            func(e *policy.Entry) { e.Body = map[string]string{`a"b`: "v"} },
		`body: the value of k is not`:        func(e *policy.Entry) { e.Body = map[string]string{"k": "\u00e9"} },
		`body: the value of k has a`:         func(e *policy.Entry) { e.Body = map[string]string{"k": "${secret:lower}"} },
		`body: there are more than 64`:       func(e *policy.Entry) { e.Body = many(65) },
	} {
		e := ok
		change(&e)
		p, err := policy.Compile(policy.Config{Entries: []policy.Entry{e}})
		require.ErrorContains(t, err, want)
		require.Nil(t, p)
	}
	agent := func(name string) policy.Entry { return policy.Entry{Name: name, Agent: true} }
	shadowed, bare := agent("agent:T"), agent("agent:T")
	shadowed.Mode, bare.URLPrefix = policy.ModeShadow, "a.test"
	added, query := map[string]string{"X-Own": "${secret:O}"}, map[string]string{"key": "${secret:O}"}
	for want, e := range map[string]policy.Entry{
		`entry 1: name: "agent:" is kept for agents`:          {Name: "agent:T"},
		`entry 1: name: an agent's is "agent:"`:               agent("T"),
		`entry 1: name: an agent's is "agent:" and`:           agent("agent:"),
		`entry "agent:T": mode: an agent's entry is never`:    shadowed,
		`entry "agent:T": url_prefix: the url has no`:         bare,
		`entry 1: name: "host:" is kept for allowed hosts`:    agent("host:T"),
		`entry 1: name: must be at most 128 letters, digits,`: agent("agent:a b"),
		`entry 1: name: "model:" is kept for models`:          {Name: "model:x"},
		`entry 1: name: a model's is "model:" and its`:        agent("model:"),
		`entry 1: name: must be at most 128 letters, digits`:  agent("model:a/b"),

		"caller_headers: the entry adds nothing":                   {Name: "a", CallerHeaders: []string{"X-A"}},
		"caller_params: the entry adds nothing":                    {Name: "a", CallerParams: []string{"a"}},
		"caller_headers: \"\" is not a name":                       {Name: "a", Headers: added, CallerHeaders: []string{""}},
		"caller_headers: \"a*b\" is not a name":                    {Name: "a", Headers: added, CallerHeaders: []string{"a*b"}},
		"caller_headers: \"*a*\" is not a name":                    {Name: "a", Headers: added, CallerHeaders: []string{"*a*"}},
		"caller_headers: \"X A\" is not a header name":             {Name: "a", Headers: added, CallerHeaders: []string{"X A"}},
		"caller_headers: Host is refused to every caller":          {Name: "a", Headers: added, CallerHeaders: []string{"Host"}},
		"caller_headers: Private-Token is refused to every caller": {Name: "a", Headers: added, CallerHeaders: []string{"Private-Token"}},
		"caller_headers: x-own is set by the entry itself":         {Name: "a", Headers: added, CallerHeaders: []string{"x-own"}},
		"caller_headers: x_a appears twice":                        {Name: "a", Headers: added, CallerHeaders: []string{"X-A", "x_a"}},
		"caller_params: \"a b\" is not a parameter name":           {Name: "a", Headers: added, CallerParams: []string{"a b"}},
		"caller_params: key is set by the entry itself":            {Name: "a", Query: query, CallerParams: []string{"key"}},
		"caller_params: page appears twice":                        {Name: "a", Query: query, CallerParams: []string{"page", "page"}},
	} {
		e.URLPrefix = cmp.Or(e.URLPrefix, "https://a.test/")
		_, err := policy.Compile(policy.Config{Entries: []policy.Entry{e}})
		require.ErrorContains(t, err, want)
	}
	for _, good := range []string{"agents:T", "agent", "models:x", "model"} {
		compile(t, policy.Config{Entries: []policy.Entry{{Name: good, URLPrefix: "https://a.test/"}}})
	}

	_, err := policy.Compile(policy.Config{Entries: []policy.Entry{{}, {Name: "b", Mode: "x"}}, AllowedHosts: []string{"*"}})
	for _, part := range []string{"entry 1: name", "entry 1: url_prefix", `entry "b": url_prefix`, `entry "b": mode`, `allowed host "*"`} {
		require.ErrorContains(t, err, part)
	}
	_, err = policy.Compile(policy.Config{SelfHosts: []string{"a b"}})
	require.ErrorContains(t, err, `self host "a b"`)
}

// many is a set of n things to add.
func many(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m["n"+strconv.Itoa(i)] = "v"
	}
	return m
}

func TestErrorsKeepAddedValuesToThemselves(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"Bearer tok3n\x00", "tok3n ${secret:oops}"} {
		added := map[string]string{"Authorization": value}
		for _, e := range []policy.Entry{{Headers: added}, {Query: added}, {Body: added}} {
			e.Name, e.URLPrefix = "a", "https://a.test/"
			_, err := policy.Compile(policy.Config{Entries: []policy.Entry{e}})
			require.Error(t, err)
			require.NotContains(t, err.Error(), "tok3n")
		}
	}
}

// TestVersionIsOfTheMeaning: two ways to write one policy are one, and every member counts.
func TestVersionIsOfTheMeaning(t *testing.T) {
	t.Parallel()
	version := func(change func(c *policy.Config)) string {
		c := policy.Config{
			Entries: []policy.Entry{{
				Name: "a", URLPrefix: "https://a.test", Methods: []string{"GET", "POST"},
				Network: "private", CIDRs: []string{"10.0.0.0/8", "172.16.0.0/12"}, Headers: map[string]string{"X": "1", "Y": "2"},
			}, bound()},
			AllowedHosts: []string{"localhost", "::1"},
		}
		change(&c)
		return compile(t, c).Version()
	}
	want := version(func(*policy.Config) {})
	require.Len(t, want, 64)
	require.Equal(t, want, version(func(c *policy.Config) {
		a, pay := &c.Entries[0], &c.Entries[1]
		a.URLPrefix, a.Methods, a.CIDRs, a.Mode = "HTTPS://A.test:443/", []string{"post", "get", "GET"}, []string{"172.16.0.0/12", "10.0.0.0/8"}, policy.ModeEnforce
		c.AllowedHosts, c.SelfPorts = []string{" LOCALHOST", "[::1]", "localhost"}, []uint16{1234}
		pay.Retry.On, pay.NeverRetry.Status, pay.NeverRetry.Header = []int{409, 503}, []int{501, 502}, map[string]string{"x-should-retry": "FALSE"}
	}))
	seen := map[string]int{want: -1}
	for i, change := range []func(*policy.Config){
		func(c *policy.Config) { c.Entries[0].URLPrefix += "/b" },
		func(c *policy.Config) { c.Entries[0].Methods = nil },
		func(c *policy.Config) { c.Entries[0].CIDRs = c.Entries[0].CIDRs[:1] },
		func(c *policy.Config) { c.Entries[0].Headers["X"] = "3" },
		func(c *policy.Config) { c.Entries[0].UpstreamIdempotency = &policy.Idempotency{TTL: time.Hour} },
		func(c *policy.Config) { c.Entries[0].Limits.Rate = "1/s" },
		func(c *policy.Config) { c.Entries[0].Redirects = 1 },
		func(c *policy.Config) { c.Entries[0].EncodedSlashes = true },
		func(c *policy.Config) { c.Entries[0].Query = map[string]string{"k": "1"} },
		func(c *policy.Config) { c.Entries[0].Body = map[string]string{"k": "1"} },
		func(c *policy.Config) { c.Entries[0].Mode = policy.ModeShadow },
		func(c *policy.Config) { c.AllowedHosts = nil },
		func(c *policy.Config) { c.Entries = append(c.Entries, agent()) },
		func(c *policy.Config) { c.Entries[1].UpstreamIdempotency.Header = "" },
		func(c *policy.Config) { c.Entries[1].UpstreamIdempotency.Derive = false },
		func(c *policy.Config) {
			c.Entries[1].UpstreamIdempotency.Derive, c.Entries[1].RequiresKey = false, true
		},
		func(c *policy.Config) { c.Entries[1].Retry = nil },
		func(c *policy.Config) { c.Entries[1].Retry.Attempts++ },
		func(c *policy.Config) { c.Entries[1].Retry.Base++ },
		func(c *policy.Config) { c.Entries[1].Retry.Cap++ },
		func(c *policy.Config) { c.Entries[1].Retry.On = nil },
		func(c *policy.Config) { c.Entries[1].NeverRetry = nil },
		func(c *policy.Config) { c.Entries[1].NeverRetry.Status = nil },
		func(c *policy.Config) { c.Entries[1].NeverRetry.Header = nil },
		func(c *policy.Config) { c.Entries[1].Reconcile = nil },
		func(c *policy.Config) { c.Entries[1].Reconcile.URL += "/" },
		func(c *policy.Config) { c.Entries[1].Reconcile.Applied = "true" },
		func(c *policy.Config) { c.Entries[1].Reconcile.NotApplied = "" },
		func(c *policy.Config) { c.Entries[1].Reconcile.Within++ },
		func(c *policy.Config) { c.Entries[1].ResponseSchema = nil },
		func(c *policy.Config) { c.Entries[1].ResponseSchema.Mode = policy.SchemaWarn },
		func(c *policy.Config) { c.Entries[1].ResponseSchema.Schema = []byte(`{}`) },
	} {
		v := version(change)
		require.NotContains(t, seen, v, "change %d", i)
		seen[v] = i
	}
}

func TestAllowedHostItems(t *testing.T) {
	t.Parallel()
	for item, want := range map[string]string{
		" Example.COM ": "example.com", //nolint:gocritic // white space around an item is the case
		"localhost":     "localhost", "127.0.0.1": "127.0.0.1",
		"::1": "::1", "[::1]": "::1", "[0:0::1]:80": "[::1]:80", "a.test:8080": "a.test:8080",
		".Example.com": ".example.com", "https://a.test": "https://a.test/", "http://A.test:8080/x/": "http://a.test:8080/x/",
		"10.0.0.9": "10.0.0.9", "8.8.8.8:53": "8.8.8.8:53",
	} {
		p := compile(t, policy.Config{AllowedHosts: []string{item}})
		require.Equal(t, []string{want}, p.AllowedHosts())
	}
	for _, item := range []string{
		"", " ", "*", "*.a.test", ".", "..a", ".1", "a b", "a.test.", "a.test:", "a.test:0", "a.test:80:80", "a.test/x", "me@a.test",
		"ftp://a.test", "https://", "https://a.test/?q", "https://a.test/#f", "https://me@a.test", "[::1", "[a]", "::ffff:127.0.0.1", "fe80::1%1",
		"169.254.169.254", "0.0.0.0", "255.255.255.255", "1.2.3", "0x7f000001", "2130706433", "-a", "https://a.test/../b", "\u0430.test",
	} {
		_, err := policy.Compile(policy.Config{AllowedHosts: []string{item}})
		require.ErrorContains(t, err, "allowed host", "%q", item)
	}
}

func TestAllowedHostGrantsItsOwnHost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		item, url, answer string // answer: what DNS says; empty for a literal
		ok                bool
	}{
		{"localhost", "https://LOCALHOST:8443/x", "127.0.0.1", true},
		{"localhost", "http://localhost/", "8.8.8.8", false},
		{"localhost", "http://a.localhost/", "127.0.0.1", false},
		{"localhost", "http://127.0.0.1/", "", false},
		{".localhost", "http://a.localhost/", "::1", true},
		{"127.0.0.1", "http://127.0.0.1:1/", "", true},
		{"127.0.0.1", "http://127.0.0.2/", "", false},
		{"::1", "http://[0::1]:9/", "", true},
		{"a.test", "http://a.test:9/", "8.8.8.8", true},
		{"a.test", "http://a.test:9/", "127.0.0.1", false},
		{"a.test:9", "http://a.test/", "8.8.8.8", false},
		{"10.0.0.9", "http://10.0.0.9/", "", true},
		{"10.0.0.9", "http://10.0.0.8/", "", false},
		{"http://localhost:3000/api", "http://localhost:3000/api/x", "::1", true},
		{"http://localhost:3000/api", "http://localhost:3000/apix", "::1", false},
		{"http://localhost:3000/api", "https://localhost:3000/api", "::1", false},
	} {
		p := compile(t, policy.Config{AllowedHosts: []string{c.item}})
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"} {
			pm, ok := p.Decide(policy.Request{Method: method, URL: c.url}).Permit()
			if ok && c.answer != "" {
				ok = pm.CheckAddr(addr(c.answer)) == nil
			}
			require.Equal(t, c.ok, ok, "%s %s %s", c.item, method, c.url)
		}
	}
}
