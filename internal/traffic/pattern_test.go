package traffic_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/traffic"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

func TestPatterns(t *testing.T) {
	t.Parallel()
	type testCase struct {
		query     bool
		fit, miss []string
	}
	table.RunNamed(t, map[string]testCase{
		"https://api.example.com/v1/*": {
			fit: []string{
				"https://api.example.com/v1/", "https://api.example.com/v1/a/b", "HTTPS://API.example.com:443/v1/x?q=1", "https://api.example.com/%761/a",
			},
			miss: []string{
				"https://api.example.com/v1", "https://api.example.com/V1/a", "http://api.example.com/v1/a", "https://api.example.com:8443/v1/a",
				"https://api.example.com.evil.example/v1/a", "https://eapi.example.com/v1/a", "https://api.example.com/x?/v1/a", "https://api.example.com/v1/%2e%2E",
			},
		},
		"https://api.example.com":   {fit: []string{"https://api.example.com", "https://api.example.com/", "https://api.example.com/?a"}, miss: []string{"https://api.example.com/a"}},
		"https://api.example.com?a": {query: true, fit: []string{"https://api.example.com?a", "https://api.example.com/?a"}, miss: []string{"https://api.example.com/a", "https://api.example.com/"}},
		"HTTPS://API.Example.com/A": {fit: []string{"https://api.example.com/A"}, miss: []string{"https://api.example.com/a"}},
		"*://*/*": {
			fit:  []string{"http://a.example/", "https://a.example/x/y?z", "http://a.example:8080/", "http://127.0.0.1:1/", "http://[::1]:8080/"},
			miss: []string{"not a url", "ftp://a.example/", "https://a.example/#x"},
		},
		"*":                          {fit: []string{"http://a.example:81/x?y"}, miss: []string{"", "https://a.example/a b"}},
		"<all_urls>":                 {fit: []string{"http://a.example:81/x?y"}, miss: []string{"data:x"}},
		"*://a.example/":             {fit: []string{"http://a.example/", "https://a.example/", "https://a.example:443/"}, miss: []string{"http://a.example:443/", "https://a.example:80/"}},
		"http://a.example:80/":       {fit: []string{"http://a.example/", "http://a.example:80/"}, miss: []string{"http://a.example:81/"}},
		"*://a.example:8080/":        {fit: []string{"http://a.example:8080/", "https://a.example:8080/"}, miss: []string{"http://a.example/"}},
		"http://a.example:*/":        {fit: []string{"http://a.example/", "http://a.example:1/"}, miss: []string{"https://a.example/"}},
		"http://*.example.com/":      {fit: []string{"http://a.example.com/", "http://a.b.example.com/"}, miss: []string{"http://example.com/", "http://a.example.com:81/", "http://a.example.com.evil.example/"}},
		"http://local*/":             {fit: []string{"http://localhost/", "http://localhost:8080/"}, miss: []string{"http://host.local/"}},
		"http://[0:0:0:0:0:0:0:1]/x": {fit: []string{"http://[::1]/x", "http://[::1]:80/x"}, miss: []string{"http://[::2]/x"}},
		"http://a.example/*/end":     {fit: []string{"http://a.example/x/end", "http://a.example/x/y/end", "http://a.example/x/end?q"}, miss: []string{"http://a.example//end", "http://a.example/end", "http://a.example/x/end/"}},
		"http://a.example/aba*ba":    {fit: []string{"http://a.example/ababa", "http://a.example/abaxba"}, miss: []string{"http://a.example/aba"}},
		"http://a.example/x":         {fit: []string{"http://a.example/x?y", "http://a.example/x?"}, miss: []string{"http://a.example/x/", "http://a.example/xy"}},
		"http://a.example/x*y=1": {
			query: true, fit: []string{"http://a.example/x?y=1", "http://a.example/x/z?a&y=1"}, miss: []string{"http://a.example/x?y=2", "http://a.example/x"},
		},
		"https://a.example/caf%C3%A9/%7e*":   {fit: []string{"https://a.example/caf%c3%a9/~x", "https://a.example/%63af%C3%a9/%7ex"}, miss: []string{"https://a.example/caf%C3%A8/~", "https://a.example/cafC3A9/~"}},
		"https://a.example/v1/charges":       {fit: []string{"https://a.example/v1/%63harges", "https://a.example/v1/%63%68arges?q"}, miss: []string{"https://a.example/v1/%43harges"}},
		"https://a.example/refs/heads/*":     {fit: []string{"https://a.example/refs/heads%2Fmain", "https://a.example/refs%2fheads%2Fa%2fb"}},
		"https://a.example/v1/%63harges":     {fit: []string{"https://a.example/v1/charges"}},
		"https://a.example/x%3d%41":          {fit: []string{"https://a.example/x%3DA"}, miss: []string{"https://a.example/x=A"}},
		"https://a.example/x?q=%c3%A9&%61=*": {query: true, fit: []string{"https://a.example/x?q=%C3%a9&a=1"}, miss: []string{"https://a.example/x?q=%C3%a9&A=1"}},
		"http://*:*/":                        {fit: []string{"http://[::1]/", "http://[::1]:81/", "http://a.example/"}},
		"http://*1/":                         {fit: []string{"http://10.0.0.1/", "http://a1/"}, miss: []string{"http://[::1]/"}},
		"http://a.example/x?y=*":             {query: true, fit: []string{"http://a.example/x?y="}, miss: []string{"http://a.example/xy=", "http://a.example/x/?y="}},
	}, func(t *testing.T, pattern string, urls testCase) {
		r := mock("m", pattern, `1`)
		r.Match.IncludeQuery = urls.query
		s := setOf(t, r)
		for _, url := range urls.fit {
			require.Equal(t, "m", s.Shape(get(url), noon()).Mock, url)
		}
		for _, url := range urls.miss {
			require.Equal(t, traffic.Effect{Etag: "etag-1-x"}, s.Shape(get(url), noon()), url)
		}
	})
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to string
		query    bool
		url      string
		want     string
	}{
		{from: "https://a.example/*", to: "https://b.example/$1", url: "https://a.example/x/y", want: "https://b.example/x/y"},
		{from: "https://a.example/*", to: "https://b.example/$1", url: "https://a.example/x?q=1&q=2", want: "https://b.example/x?q=1&q=2"},
		{from: "https://a.example/*", to: "https://b.example/$1", url: "https://a.example/x?", want: "https://b.example/x?"},
		{from: "https://a.example/*", to: "https://b.example/", url: "https://a.example?q", want: "https://b.example/?q"},
		{from: "https://a.example/*", to: "https://b.example/$1?r=1", url: "https://a.example/x?q=1", want: "https://b.example/x?r=1"},
		{from: "https://a.example/*", to: "https://b.example/$1", query: true, url: "https://a.example/x?q=1", want: "https://b.example/x?q=1"},
		{from: "https://a.example/x?*", to: "https://b.example/y?$1", query: true, url: "https://a.example/x?q=1", want: "https://b.example/y?q=1"},
		{from: "https://a.example/x*", to: "https://b.example/y", query: true, url: "https://a.example/x?q=1", want: "https://b.example/y"},
		{from: "*://*.a.example:*/*", to: "$1://b.example:$3/$2/$4", url: "http://eu.a.example:81/x", want: "http://b.example:81/eu/x"},
		{from: "*://*.a.example:*/*", to: "$1://b.example:$3/$2/$4", url: "https://eu.a.example/x", want: "https://b.example:443/eu/x"},
		{from: "http://*/*", to: "http://b.example/$1/$2", url: "http://a.example:81/x", want: "http://b.example/a.example:81/x"},
		{from: "http://*/*", to: "http://b.example/$1/$2", url: "http://a.example:80/x", want: "http://b.example/a.example/x"},
		{from: "*", to: "http://b.example/?u=$1", url: "HTTP://A.example:81/x?y", want: "http://b.example/?u=http://a.example:81/x"},
		{from: "*", to: "http://b.example/?u=$1", query: true, url: "http://[::1]/x?y", want: "http://b.example/?u=http://[::1]/x?y"},
		{from: "http://*/*", to: "http://$1/y/$2", url: "http://[::1]/x", want: "http://[::1]/y/x"},
		{from: "http://*/*", to: "http://$1/y/$2", url: "http://[::1]:81/x", want: "http://[::1]:81/y/x"},
		{from: "http://*:*/*", to: "https://$1:$2/$3", url: "http://[0::1]:81/x", want: "https://[::1]:81/x"},
		{from: "https://a.example/*", to: "https://b.example/$1", url: "https://a.example/%63%c3%a9?q=%63%c3", want: "https://b.example/c%C3%A9?q=%63%c3"},
		{from: "https://a.example/%63*", to: "https://b.example?x=@$1", query: true, url: "https://a.example/c?%61", want: "https://b.example?x=@?a"},
		{from: "<all_urls>", to: "http://b.example/", url: "https://a.example/x?y", want: "http://b.example/?y"},
		{from: "http://a.example/*/*", to: "http://b.example/$2/$1$1", url: "http://a.example/1/2/3", want: "http://b.example/2/3/11"},
		{from: "http://a.example/**", to: "http://b.example/-$1-$2", url: "http://a.example/x", want: "http://b.example/--x"},
		{from: "http://a.example/*", to: "http://b.example/$x$/$1$", url: "http://a.example/x", want: "http://b.example/$x$/x$"},
		{from: "http://a.example/*b*b", to: "http://c.example/$1/$2", url: "http://a.example/abbb", want: "http://c.example/a/b"},
	} {
		r := redirect("r", c.from, c.to)
		r.Match.IncludeQuery = c.query
		e := setOf(t, r).Shape(get(c.url), noon())
		require.Equal(t, c.want, e.URL, c)
		require.Equal(t, "r", e.Redirect, c)
		require.True(t, e.Changes(), c)
	}
}

func TestRedirectLeavesTheFragment(t *testing.T) {
	t.Parallel()
	s := setOf(t, redirect("r", "https://a.example/*", "https://b.example/$1"))
	c := get("https://a.example/x?y=1#z")
	require.Empty(t, s.Shape(c, noon()).URL, "policy denies it for its form")
	c.DropFragment = true
	require.Equal(t, "https://b.example/x?y=1", s.Shape(c, noon()).URL)
	c.URL = "https://a.example?y=1#z"
	require.Equal(t, "https://b.example/?y=1", s.Shape(c, noon()).URL)
}

// What sixteen wildcards make of a long URL is bounded, and no URL that is called.
func TestRedirectsDoNotExplode(t *testing.T) {
	t.Parallel()
	s := setOf(t, redirect("r", "https://a.example/*", "https://b.example/"+strings.Repeat("$1", 900)))
	e := s.Shape(get("https://a.example/"+strings.Repeat("a", 8000)), noon())
	require.Greater(t, len(e.URL), 8<<10)
	require.Less(t, len(e.URL), 32<<10)
}

// The work for hostile patterns grows with the text, not with a power of it: a
// matcher that goes back would not come to an end here.
func TestPatternBombs(t *testing.T) {
	t.Parallel()
	var rules []schemas.Rule
	for i := range 200 {
		r := mock(string(rune('a'+i%26))+strings.Repeat("x", i/26), "https://*a*a*a*/"+strings.Repeat("*a", 12)+"b", `1`)
		rules = append(rules, r)
	}
	s := setOf(t, rules...)
	c := get("https://" + strings.Repeat("a", 60) + ".example/" + strings.Repeat("a", 8000))
	require.Empty(t, s.Shape(c, noon()).Mock)
}

// circleOf are n redirects, each to the path of the next, and of the last to that of the first.
func circleOf(n int) (out []schemas.Rule) {
	for i := range n {
		out = append(out, redirect(fmt.Sprintf("r%d", i), fmt.Sprintf("https://a.example/%d", i), fmt.Sprintf("https://a.example/%d", (i+1)%n)))
	}
	return out
}

// A redirect to where this call is going already has no effect, and one of each call is denied. A circle
// is found within five redirects.
func TestCircles(t *testing.T) {
	t.Parallel()
	const x, y, z = "https://a.example/0", "https://a.example/y", "https://a.example/z"
	for name, c := range map[string]struct {
		rules []schemas.Rule
		to    string
		loop  bool
	}{
		"back and forth":  {[]schemas.Rule{redirect("r1", x, y), redirect("r2", y, x)}, y, true},
		"one way":         {[]schemas.Rule{redirect("r1", x, y), redirect("r2", y, z)}, y, false},
		"to a mock":       {[]schemas.Rule{redirect("r1", x, y), priority(mock("m", y, `1`), 1), redirect("r2", y, x)}, y, false},
		"disabled":        {[]schemas.Rule{redirect("r1", x, y), with(redirect("r2", y, x), func(r *schemas.Rule) { r.Enabled = false })}, y, false},
		"into a circle":   {[]schemas.Rule{redirect("r1", x, y), redirect("r2", y, z), redirect("r3", z, y)}, y, false},
		"of five":         {circleOf(5), "https://a.example/1", true},
		"of six":          {circleOf(6), "https://a.example/1", false},
		"to itself":       {[]schemas.Rule{redirect("r", x, x)}, x, true},
		"in another form": {[]schemas.Rule{redirect("r", x, "HTTPS://A.example:443/0")}, "", false},
		"by a wildcard":   {[]schemas.Rule{redirect("r", "https://a.example/*", "https://a.example/$1")}, x, true},
		"with a query":    {[]schemas.Rule{redirect("r", x, x+"?dry=1")}, x + "?dry=1", false},
		"to itself first": {[]schemas.Rule{priority(redirect("r1", "*", z), 1), redirect("r2", z, y)}, z, false},
	} {
		e := setOf(t, c.rules...).Shape(get(x), noon())
		require.Equal(t, c.to, e.URL, name)
		require.Equal(t, c.loop, e.Loop, name)
	}
}

func TestTargetPrefix(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ from, to, prefix string }{
		{"https://a.example/*", "https://b.example/v1", "https://b.example/v1"},
		{"https://a.example/*", "https://b.example/v1/$1", "https://b.example/v1/"},
		{"https://a.example/*", "https://$1/", "https://"},
		{"https://a.example/*", "https://b.example:$1/", "https://b.example:"},
		{"*://*.a.example:*/*", "$1://$2.b.example:$3/", ""},
		{"*", "https://b.example/?u=$1", "https://b.example/?u="},
	} {
		r := redirect("r", c.from, c.to)
		require.Equal(t, c.prefix, traffic.TargetPrefix(r), c.to)
		compile(t, schemas.RuleSet{Rules: []schemas.Rule{r}})
	}
	for _, r := range []schemas.Rule{mock("m", "*", `1`), redirect("r", "*", "nowhere")} {
		require.Empty(t, traffic.TargetPrefix(r))
	}
}
