package policy_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/schemas"
)

// orders is a policy with an entry of each kind.
func orders() policy.Config {
	return policy.Config{
		Entries: []policy.Entry{
			{
				Name: "orders", URLPrefix: "https://shop.test/api", Headers: map[string]string{"X-Key": "${secret:SHOP}"},
				Query: map[string]string{"key": "s3cret"}, Body: map[string]string{"pin": "s3cret"}, Methods: []string{"GET", "POST"},
				CallerHeaders: []string{"X-A"}, CallerParams: []string{"a"},
			},
			{Name: "stock", URLPrefix: "https://stock.test:8443/"},
			{Name: "local", URLPrefix: "http://127.0.0.1:7000/", Network: "loopback"},
			{Name: "lan", URLPrefix: "http://10.1.2.3/", Network: "private", CIDRs: []string{"10.2.0.0/16"}},
			{Name: "printer", URLPrefix: "http://10.9.9.9/"},
			{Name: "meta", URLPrefix: "http://169.254.169.254/"},
			{Name: "trial", URLPrefix: "https://stock.test:8443/", Methods: []string{"DELETE"}, Mode: policy.ModeShadow},
		},
		AllowedHosts: []string{"wiki.test"},
		SelfPorts:    []uint16{8092},
	}
}

func TestHints(t *testing.T) {
	t.Parallel()
	p := compile(t, orders())
	type request = policy.Request
	header := func(name, value string) request {
		return request{Key: "orders", URL: "https://shop.test/api", Headers: []schemas.Header{{Name: name, Value: value}}}
	}
	for hint, r := range map[string]request{
		"set allowlist_key to one of orders, stock, local, lan, printer, meta":                                              {Key: "host:nobody", URL: "https://nowhere.test/"},
		"set allowlist_key to orders ":                                                                                      {Key: "other", URL: "https://nowhere.test/", Only: []string{"orders"}},
		"add an entry named billing with url_prefix https://nowhere.test/":                                                  {Key: "billing", URL: "https://nowhere.test/x?y"},
		"add an entry named billing with url_prefix http://localhost:81/, methods [POST] and network loopback":              {Key: "billing", Method: "post", URL: "http://localhost:81/x"},
		"add an entry with url_prefix https://nowhere.test/ and methods [PUT], or add nowhere.test to policy.allowed_hosts": {Method: "PUT", URL: "https://nowhere.test/"},
		"set allowlist_key to orders":                                                                                       {Key: "Orders", URL: "https://nowhere.test/"},
		"set allowlist_key to stock":                                                                                        {Key: "orders", URL: "https://stock.test:8443/"},
		"set mode of entry trial to enforce":                                                                                {Key: "trial", Method: "DELETE", URL: "https://stock.test:8443/"},
		"leave out allowlist_key; allowed host wiki.test covers the call":                                                   {Key: "orders", URL: "https://wiki.test/"},
		"add PUT to methods of entry orders":                                                                                {Key: "orders", Method: "put", URL: "https://shop.test/api"},
		"use GET, HEAD, OPTIONS, POST, PUT, PATCH or DELETE":                                                                {Key: "orders", Method: "TRACE", URL: "https://shop.test/api"},
		"use the host shop.test, which entry orders covers":                                                                 {Key: "orders", URL: "https://169.254.169.254/api"},

		"use port 7000":                                                    {URL: "http://127.0.0.1:8092/"},
		"begin the url with https://":                                      {Key: "orders", URL: "http://shop.test/api"},
		"begin the url with https:// or http://":                           {Key: "orders", URL: "shop.test/api"},
		"take it out and let the entry's headers hold the credential":      {Key: "orders", URL: "https://s3cret:s3cret@shop.test/api"},
		"write the host in lower case without the trailing dot: shop.test": {Key: "orders", URL: "https://SHOP.test./api"},

		"use the host shop.test, which entry orders covers, or add an entry for this one and set allowlist_key to its name": {Key: "orders", URL: "https://shopp.test/api"},
		"use port 8443, or add an entry for port 443 and set allowlist_key to its name":                                     {Key: "stock", URL: "https://stock.test/"},
		"use a path at or below /api, or widen url_prefix of entry orders":                                                  {Key: "orders", URL: "https://shop.test/apis"},

		"write single slashes in the path":                                                   {Key: "orders", URL: "https://shop.test/api//x"},
		"write the path that it leads to":                                                    {Key: "orders", URL: "https://shop.test/api/../x"},
		"write / for the backslash at byte 22":                                               {Key: "orders", URL: "https://shop.test/api\\x"},
		"write %C3%A9 for the character at byte 23":                                          {Key: "orders", URL: "https://shop.test/api/é"},
		"write %20 for the character at byte 22":                                             {Key: "orders", URL: "https://shop.test/api a"},
		"leave out the text before or after the url, at byte 22":                             {Key: "orders", URL: "https://shop.test/api "},
		"leave out the control character at byte 22":                                         {Key: "orders", URL: "https://shop.test/api\n"},
		"write the host as A-labels, which begin with xn--; it has another script at byte 9": {Key: "orders", URL: "https://\u0455hop.test/api"},
		"leave out the character at byte 18, which no host has":                              {Key: "orders", URL: "https://shop.test\\@x/api"},
		"write %25 for the percent sign at byte 23, or two hex digits after it":              {Key: "orders", URL: "https://shop.test/api?%zz"},
		"leave out the # and what follows it":                                                {Key: "orders", URL: "https://shop.test/api#s3cret"},
		"shorten the url by 2 bytes, or send what is long in the body":                       {Key: "orders", URL: "https://shop.test/api/" + strings.Repeat("a", 8<<10-20)},
		"leave out the parameters that entry orders adds: key":                               {Key: "orders", URL: "https://shop.test/api?KEY=1"},
		"leave out the members that entry orders adds: pin":                                  {Key: "orders", Method: "POST", URL: "https://shop.test/api", HasBody: true, Body: json.RawMessage(`{"pin":1}`)},
		"send a JSON object as the body, such as {}":                                         {Key: "orders", Method: "POST", URL: "https://shop.test/api"},
		"send one":                  {Key: "orders", Method: "POST", URL: "https://shop.test/api", HasBody: true, Body: json.RawMessage(`[]`)},
		"leave out the header Host": header("Host", "x"),
		`leave out the header Sudo, or add Sudo to caller_headers of entry orders`:                                header("Sudo", "root"),
		`leave out the parameter "su do", or add "su do" to caller_params of entry orders`:                        {Key: "orders", URL: "https://shop.test/api?a=1&su%20do=s3cret"},
		"leave out the header Cookie; the operator sets it in headers of entry orders":                            header("Cookie", "s3cret"),
		"leave out the header x-key; entry orders sets it":                                                        header("x-key", "s3cret"),
		"leave out the header Idempotency-Key and set idempotency_key":                                            header("Idempotency-Key", "s3cret"),
		"change the value of the header X-A: encode it so that it is printable ASCII":                             header("X-A", "s3cret\n"),
		"use letters, digits and hyphens":                                                                         header("s3cret ", "1"),
		"use 1 to 255 printable ASCII characters":                                                                 {Key: "orders", URL: "https://shop.test/api", IdempotencyKey: "\n"},
		"send the header X-A once":                                                                                {Key: "orders", URL: "https://shop.test/api", Headers: []schemas.Header{{Name: "x-a"}, {Name: "X-A"}}},
		"add 10.1.2.3/32 to cidrs of entry lan":                                                                   {Key: "lan", URL: "http://10.1.2.3/"},
		"set network of entry printer to private with cidrs 10.9.9.9/32":                                          {Key: "printer", URL: "http://10.9.9.9/"},
		"add an entry with url_prefix https://nowhere.test:444/, or add nowhere.test:444 to policy.allowed_hosts": {URL: "https://nowhere.test:444/x?s3cret"},
		"add an entry with url_prefix http://localhost/ and network loopback":                                     {URL: "http://localhost/s3cret"},
		"add an entry with url_prefix http://192.168.0.1/ and network private with cidrs 192.168.0.1/32":          {URL: "http://192.168.0.1/"},
		"use a token whose entries cover this host":                                                               {URL: "https://nowhere.test/", Only: []string{"orders"}},
		"set allowlist_key to stock ":                                                                             {Key: "orders", URL: "https://nowhere.test/", Only: []string{"stock"}},
		"write four decimal numbers from 0 to 255 without leading zeros":                                          {Key: "orders", URL: "https://0x7f.1/"},
		// Nothing can be done about these, and nothing is promised.
		"": {Key: "meta", URL: "http://169.254.169.254/"}, " ": {URL: "http://169.254.169.254:81/", Only: []string{"orders"}}, "  ": {URL: "http://localhost:8092/"},
		"   ": {URL: "http://[::ffff:10.0.0.1]/"}, "    ": {Key: "billing", URL: "http://169.254.169.254:81/"}, "     ": {URL: "http://169.254.169.254:81/", KeyRequired: true},
	} {
		if r.Method == "" {
			r.Method = "GET"
		}
		x := p.Explain(r)
		require.False(t, x.Allowed, hint)
		require.Equal(t, strings.TrimSpace(hint), x.Remedy, "%s %s", r.Method, r.URL)
		require.NotEmpty(t, x.Check)
		require.Equal(t, p.Decide(r).Decision, x.Decision)
		require.NotContains(t, x.Remedy+x.Reason, "s3cret")
	}
}

func TestVerdictsOfEveryEntry(t *testing.T) {
	t.Parallel()
	p := compile(t, orders())
	r := policy.Request{Method: "DELETE", URL: "https://stock.test:8443/1", IdempotencyKey: "k"}
	x := p.Explain(r)
	require.False(t, x.Allowed)
	require.Equal(t, "method", x.Check)
	require.Equal(t, &schemas.Shadow{Allowed: true, Entry: "trial"}, x.Shadow)
	require.Empty(t, x.Class)
	type verdict struct {
		entry, mode, check string
		fits               bool
	}
	var got []verdict
	for _, v := range x.Entries {
		require.Equal(t, v.Fits, v.Reason == "")
		got = append(got, verdict{v.Entry, v.Mode, v.Check, v.Fits})
	}
	require.Equal(t, []verdict{
		{"orders", "enforce", "host", false},
		{"stock", "enforce", "method", false},
		{"local", "enforce", "scheme", false},
		{"lan", "enforce", "scheme", false},
		{"printer", "enforce", "scheme", false},
		{"meta", "enforce", "scheme", false},
		{"trial", "shadow", "", true},
		{"host:wiki.test", "enforce", "host", false},
	}, got)

	r.Only = []string{"stock"}
	require.Len(t, p.Explain(r).Entries, 1, "the others do not exist")
	r.Only, r.Key = nil, "stock"
	require.Len(t, p.Explain(r).Entries, 7, "a key selects no allowed host")

	x = p.Explain(policy.Request{Method: "GET", URL: "https://stock.test:8443/1"})
	require.True(t, x.Allowed)
	require.Empty(t, x.Check+x.Remedy)
	require.Equal(t, schemas.ClassSafe, x.Class)

	x = p.Explain(policy.Request{Method: "GET", URL: "nonsense"})
	require.Len(t, x.Entries, 8)
	require.Equal(t, "url", x.Entries[0].Check)

	var none *policy.Policy
	x = none.Explain(r)
	require.False(t, x.Allowed)
	require.Equal(t, "key", x.Check)
	require.Empty(t, x.Entries)
	require.NotNil(t, x.Entries)

	empty := compile(t, policy.Config{})
	require.Equal(t, "add an entry to policy.allowlist", empty.Explain(policy.Request{KeyRequired: true, Method: "GET", URL: "https://a.test/"}).Remedy)
}

func TestView(t *testing.T) {
	t.Parallel()
	c := orders()
	c.Entries = append(c.Entries, policy.Entry{Name: "any", URLPrefix: "*", Redirects: 2}, policy.Entry{Name: "v6", URLPrefix: "HTTP://[2A00::0001]:80", Methods: []string{"TRACE"}})
	p := compile(t, c)
	since := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	v := p.View(since, nil, true)
	require.Equal(t, []any{p.Version(), since, []string{"wiki.test"}}, []any{v.Version, v.Since, v.AllowedHosts})
	require.Len(t, v.Entries, 9)
	require.Equal(t, schemas.EntryView{
		Name: "orders", URLPrefix: "https://shop.test/api", Methods: []string{"GET", "POST"}, Network: "public", Mode: "enforce",
		Headers: []string{"X-Key"}, Query: []string{"key"}, Body: []string{"pin"}, CallerHeaders: []string{"x-a"}, CallerParams: []string{"a"},
	}, v.Entries[0])
	require.Equal(t, []string{"10.2.0.0/16"}, v.Entries[3].CIDRs)
	require.Equal(t, "shadow", v.Entries[6].Mode)
	require.Equal(t, schemas.EntryView{Name: "any", URLPrefix: "*", Methods: []string{"GET"}, Network: "public", Redirects: 2, Mode: "enforce"}, v.Entries[7])
	require.Equal(t, "http://[2a00::1]/", v.Entries[8].URLPrefix)
	text, err := json.Marshal(v)
	require.NoError(t, err)
	require.NotRegexp(t, "s3cret|SHOP|null", string(text))

	some := p.View(since, []string{"stock", "nobody", "host:wiki.test"}, true)
	require.Equal(t, []schemas.EntryView{v.Entries[1]}, some.Entries)
	require.Equal(t, []string{}, some.AllowedHosts)
	text, err = json.Marshal((*policy.Policy)(nil).View(since, nil, true))
	require.NoError(t, err)
	require.JSONEq(t, `{"version":"","since":"2026-07-01T00:00:00Z","entries":[],"allowed_hosts":[]}`, string(text))
}

// TestOrigin: an entry has an origin if it is enforced, has one exact host and may be used.
func TestOrigin(t *testing.T) {
	t.Parallel()
	p, err := policy.Compile(policy.Config{
		Entries: []policy.Entry{
			{Name: "path", URLPrefix: "https://API.example/v1/"},
			{Name: "port", URLPrefix: "http://api.example:8080"},
			{Name: "v6", URLPrefix: "http://[::1]:8080/", Network: policy.NetworkLoopback},
			{Name: "any", URLPrefix: policy.AnyHost},
			{Name: "shadow", URLPrefix: "https://api.example/", Mode: policy.ModeShadow},
			{Name: "agent:X", URLPrefix: "https://agent.example/", Agent: true},
		},
		AllowedHosts: []string{"allowed.example", ".example.org"},
	})
	require.NoError(t, err)
	for name, want := range map[string]string{
		"path": "https://api.example", "port": "http://api.example:8080", "v6": "http://[::1]:8080",
		"any": "", "shadow": "", "agent:X": "", "host:allowed.example": "", "none": "", "": "",
	} {
		origin, ok := p.Origin(name, nil)
		assert.Equal(t, want, origin, name)
		assert.Equal(t, want != "", ok, name)
	}
	assert.Equal(t, []string{"path", "port", "v6", "any", "host:allowed.example", "host:.example.org", "agent:X"}, p.EntryNames())
	assert.Equal(t, []string{"api.example", "::1", "allowed.example", "agent.example"}, p.Hosts())
	assert.Equal(t, []string{"path", "port", "v6"}, p.WithOrigin(nil))
	assert.Equal(t, []string{"port"}, p.WithOrigin([]string{"port", "any"}))
	_, ok := p.Origin("path", []string{"port"})
	assert.False(t, ok)
	var none *policy.Policy
	_, ok = none.Origin("path", nil)
	assert.False(t, ok)
	assert.Empty(t, none.WithOrigin(nil))
	assert.Empty(t, none.EntryNames())
}
