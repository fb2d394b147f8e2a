package policy

import (
	"encoding/json"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzURL: nothing panics; what is accepted renders to a form that is read the
// same way again, and net/url reads both as we do: scheme, host, port, path,
// query and whether there is a question mark. The deliberate differences:
//
//   - we write the host in lower case and a literal address in its shortest
//     form, where net/url keeps it as it came;
//   - we fill in the scheme's port, and "/" for an empty path;
//   - we refuse much that net/url takes (userinfo, fragments, hosts that are not
//     names, ports out of range, raw characters), never the other way round.
func FuzzURL(f *testing.F) {
	for _, s := range []string{
		"https://a.test/x?y=1", "HTTP://A.test:80", "http://[::1]:8080/%2e", "http://[2001:db8:0::1]", "https://a.test?", "http://1.2.3.4/",
		"https://u:p@a.test/", "https://a.test\\@b.test/", "http://0x7f.1/", "http://a.test./", "http:///x", "http://a.test:0443/", "http://a.test/?#",
		"http://[::ffff:1.2.3.4]/", "https://xn--a.test/a;b/[c]?[d]", "//a", "data:x", "http://a.test/%25%32", "http://-a/", "http://a%00/",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, flaw := parseURL(s, false)
		if flaw != nil {
			require.Contains(t, []Check{CheckURL, CheckScheme}, flaw.Check)
			require.NotEmpty(t, flaw.Reason)
			return
		}
		require.True(t, strings.HasPrefix(u.Path, "/"))
		if u.userinfo || u.hostForm != nil {
			return
		}
		agree(t, s, &u.target)
		canonical := u.String()
		again, flaw := parseURL(canonical, false)
		require.Nil(t, flaw)
		require.Equal(t, u, again)
		require.Equal(t, canonical, again.String())
		agree(t, canonical, &u.target)
	})
}

// agree holds our parts against net/url's.
func agree(t *testing.T, s string, u *target) {
	t.Helper()
	std, err := url.Parse(s)
	require.NoError(t, err)
	require.Equal(t, u.Scheme, std.Scheme)
	host := strings.ToLower(std.Hostname())
	if a, err := netip.ParseAddr(host); err == nil {
		require.Equal(t, u.addr, a)
		host = a.String()
	} else {
		require.False(t, u.addr.IsValid())
	}
	require.Equal(t, u.Host, host)
	port := std.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[std.Scheme]
	}
	require.Equal(t, strconv.Itoa(int(u.Port)), port)
	path := std.EscapedPath()
	if path == "" {
		path = "/"
	}
	require.Equal(t, u.Path, path)
	require.Equal(t, u.Query, std.RawQuery)
	require.Equal(t, u.HasQuery, std.ForceQuery || std.RawQuery != "")
	require.Nil(t, std.User)
	require.Empty(t, std.Fragment)
	require.Empty(t, std.Opaque)
	if checkPath(u.Path) == nil {
		require.Equal(t, u.Target, std.RequestURI())
	}
}

// FuzzPath: a path that passes is one that a server that decodes it, cleans it
// or strips parameters does not see elsewhere.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"/", "/a/b", "/..", "/%2e%2e/", "/a;x/..;/b", "/%252e", "/a%2fb", "/%c0%af", "/.%09.", "//", "/%e2%88%95"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if !strings.HasPrefix(p, "/") || badEscape(p) >= 0 || strings.ContainsFunc(p, func(r rune) bool { return r >= 0x80 || !urlByte(byte(r)) }) {
			return
		}
		switch checkPath(p) {
		case nil:
		case deniedPathSlash: // an entry may permit it, as it may what it becomes
			require.NotEqual(t, p, Slashed(p))
			p = Slashed(p)
			require.Nil(t, checkPath(p))
		default:
			return
		}
		once, err := url.PathUnescape(p)
		require.NoError(t, err)
		require.Equal(t, strings.Count(p, "/"), strings.Count(once, "/"))
		require.NotContains(t, once, "\\")
		require.NotContains(t, once, "\x00")
		if twice, err := url.PathUnescape(once); err == nil {
			require.Equal(t, once, twice)
		}
		segments := strings.Split(once, "/")[1:]
		for i, segment := range segments {
			bare, _, _ := strings.Cut(segment, ";")
			require.NotContains(t, []string{".", ".."}, bare)
			require.True(t, segment != "" || i == len(segments)-1)
		}
	})
}

// FuzzHop: a Location that is followed is the one that net/url resolves to.
// The deliberate differences: dot segments are refused where net/url removes
// them, and a path of "%2A" alone is kept as it came, where net/url writes "*".
func FuzzHop(f *testing.F) {
	for _, s := range []string{"/v1/x", "x", "?q", "//a.test/v1/x", "HTTPS://A.test:443/v1/", "../x", "//b.test/", "x#y", ":", "/v1/a:b", "a:b", "./x", "///v1/x"} {
		f.Add(s)
	}
	p, err := Compile(Config{Entries: []Entry{{Name: "a", URLPrefix: "https://a.test/v1/", Redirects: 1}}})
	require.NoError(f, err)
	const base = "https://a.test/v1/dir/start?q=1"
	from, ok := p.Decide(Request{Key: "a", Method: "GET", URL: base}).Permit()
	require.True(f, ok)
	std, err := url.Parse(base)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, location string) {
		d := from.Redirect(location, 302, 1)
		permit, ok := d.Permit()
		if !ok {
			require.Equal(t, CheckRedirect, d.Check)
			return
		}
		require.Equal(t, "a.test", permit.Host())
		require.Equal(t, uint16(443), permit.Port())
		require.True(t, strings.HasPrefix(permit.RequestTarget(), "/v1/"))
		to, err := std.Parse(location)
		require.NoError(t, err)
		require.Equal(t, to.Scheme, permit.Scheme())
		path, query, _ := strings.Cut(permit.RequestTarget(), "?")
		require.Equal(t, to.RawQuery, query)
		decoded, err := url.PathUnescape(path)
		require.NoError(t, err)
		require.Equal(t, to.Path, decoded)
		if !strings.HasPrefix(strings.ToUpper(location), "%2A") {
			require.Equal(t, to.EscapedPath(), path)
		}
	})
}

// FuzzQuery: no parameter that a server would read under the entry's name gets
// past, whatever its dress.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{"a=1", "api_key", "API%5fKEY=1", "a;api_key", "api.key", "+api_key", "api_key[]", "%61pi_key=", "a=api_key", "api%00", "&;="} {
		f.Add(s)
	}
	p, err := Compile(Config{Entries: []Entry{{Name: "a", URLPrefix: "https://a.test/", Query: map[string]string{"api_key": "1"}}}})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, query string) {
		if !p.Decide(Request{Key: "a", Method: "GET", URL: "https://a.test/?" + query}).Allowed {
			return
		}
		for _, raw := range []string{query, strings.ReplaceAll(query, ";", "&")} {
			values, err := url.ParseQuery(raw)
			require.True(t, err == nil || strings.Contains(raw, ";"))
			for name := range values {
				require.False(t, strings.EqualFold(name, "api_key"), "%q", name)
				name, _, _ = strings.Cut(strings.TrimLeft(name, " "), "[")
				require.False(t, strings.EqualFold(strings.NewReplacer(".", "_", " ", "_").Replace(name), "api_key"), "%q", name)
			}
		}
	})
}

// FuzzBody: encoding/json finds no member of the entry's in a body that passed,
// not even where it ignores case; and what passed is an object.
func FuzzBody(f *testing.F) {
	for _, s := range []string{`{}`, `{"pin":1}`, `{"P\u0049N":1}`, `[]`, `{"a":{"pin":1}}`, `{}{}`, `null`, `{"a":1,"pin":2}`, "{\"p\u0131n\":1}", `{"pin":1,"pin":2}`} {
		f.Add([]byte(s))
	}
	p, err := Compile(Config{Entries: []Entry{{Name: "a", URLPrefix: "https://a.test/", Methods: []string{"POST"}, Body: map[string]string{"pin": "1"}}}})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, body []byte) {
		d := p.Decide(Request{Key: "a", Method: "POST", URL: "https://a.test/", HasBody: true, BodySize: len(body), Body: body})
		if !d.Allowed {
			require.Equal(t, CheckBody, d.Check)
			return
		}
		var members map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(body, &members))
		require.NotNil(t, members)
		var typed struct {
			Pin json.RawMessage `json:"pin"`
		}
		require.NoError(t, json.Unmarshal(body, &typed))
		require.Nil(t, typed.Pin)
	})
}
