package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/policy"
)

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
