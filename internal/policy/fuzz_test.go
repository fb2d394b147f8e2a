package policy

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzURL: nothing panics; what is accepted renders to a form that is read the
// same way again, and net/url reads both as we do.
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
		if flaw != flawNone {
			check, reason := flaw.describe()
			require.Contains(t, []Check{CheckURL, CheckScheme}, check)
			require.NotEmpty(t, reason)
			return
		}
		require.True(t, strings.HasPrefix(u.path, "/"))
		if u.userinfo || u.hostForm != flawNone {
			return
		}
		agree(t, s, &u.target)
		canonical := u.String()
		again, flaw := parseURL(canonical, false)
		require.Equal(t, flawNone, flaw)
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
	require.Equal(t, u.scheme, std.Scheme)
	host := strings.ToLower(std.Hostname())
	if a, err := netip.ParseAddr(host); err == nil {
		require.Equal(t, u.addr, a)
		host = a.String()
	} else {
		require.False(t, u.addr.IsValid())
	}
	require.Equal(t, u.host, host)
	port := std.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[std.Scheme]
	}
	require.Equal(t, strconv.Itoa(int(u.port)), port)
	path := std.EscapedPath()
	if path == "" {
		path = "/"
	}
	require.Equal(t, u.path, path)
	require.Equal(t, u.query, std.RawQuery)
	require.Equal(t, u.hasQuery, std.ForceQuery || std.RawQuery != "")
	if checkPath(u.path) == flawNone {
		require.Equal(t, u.requestTarget(), std.RequestURI())
	}
}

// FuzzPath: a path that passes is one that a server that decodes it, cleans it
// or strips parameters does not see elsewhere.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"/", "/a/b", "/..", "/%2e%2e/", "/a;x/..;/b", "/%252e", "/a%2fb", "/%c0%af", "/.%09.", "//", "/%e2%88%95"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if !strings.HasPrefix(p, "/") || !validEscapes(p) || strings.ContainsFunc(p, func(r rune) bool { return r >= 0x80 || !urlByte(byte(r)) }) {
			return
		}
		if checkPath(p) != flawNone {
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

// FuzzItem: an item is refused, or its canonical form is its own, and what it
// grants is never more than its own host.
func FuzzItem(f *testing.F) {
	for _, s := range []string{"localhost", "::1", "[::1]:80", ".a.test", "a.test:1", "https://a.test/x", "*", "10.0.0.1", "169.254.169.254", "a:b:c", " A "} {
		f.Add(s)
	}
	r := newRanges()
	f.Fuzz(func(t *testing.T, s string) {
		e, item, err := r.parseItem(s)
		if err != nil {
			require.Nil(t, e)
			return
		}
		again, same, err := r.parseItem(item)
		require.NoError(t, err)
		require.Equal(t, item, same)
		require.Equal(t, e, again)
		require.NotEmpty(t, e.host)
		require.False(t, e.any)
		require.False(t, e.coversHost("other.example"+strings.TrimLeft(e.host, ".")+".example"))
	})
}

func TestEveryFlawSpeaks(t *testing.T) {
	t.Parallel()
	seen := map[string]flaw{}
	for f := flawNone + 1; f < flawCount; f++ {
		check, reason := f.describe()
		require.NotEqual(t, CheckNone, check)
		require.NotEmpty(t, check.Code())
		require.NotEqual(t, "none", check.String())
		require.NotContains(t, seen, reason, "flaw %d says what flaw %d says", f, seen[reason])
		require.Regexp(t, `^[a-zA-Z].*[;,] .+[^.]$`, reason, "what was wrong, then what to do")
		seen[reason] = f
	}
}

// The order of the flaws' checks is the documented one.
func TestCheckOrder(t *testing.T) {
	t.Parallel()
	order := []string{"key", "url", "scheme", "userinfo", "host", "port", "method", "path", "header", "body", "address", "redirect"}
	for i, name := range order {
		check := Check(i + 1)
		require.Equal(t, name, check.String())
		text, err := check.MarshalText()
		require.NoError(t, err)
		require.Equal(t, name, string(text))
	}
	require.Equal(t, "none", CheckNone.String())
	require.Empty(t, CheckNone.Code())
}
