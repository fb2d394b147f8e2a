package policy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/policy"
)

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
