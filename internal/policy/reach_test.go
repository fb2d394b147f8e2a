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
		method      string
		whole, want bool
		urls        []string
	}{
		{"GET", false, true, []string{
			"", "HTTP://", "https://", "http://shop.test:80", "http://shop.test:8080/%c", "http://shop.test:8080/%c3%a",
			"https://[", "https://[2606:4700:0", "https://[2606:4700:0::1111]/", "https://any", "http://127.0.0.1:9000/",
			"http://127.0.",
		}},
		{"POST", false, true, []string{
			"https://a", "https://API.test", "https://api.test:", "https://api.test:44", "https://api.test/",
			"https://api.test/v", "https://api.test/v1", "https://api.test/v1/", "https://api.test/v1/..",
			"https://api.test/v1/x?", "https://api.test/v1/?q=%",
		}},
		{"post", false, true, []string{"https://api.test/v1/x%4"}},
		{"", true, true, []string{"https://api.test/v1/x", "https://api.test:443/v1/x?q"}},
		{"GET", true, true, []string{"http://shop.test:8080/%c3%a9/x", "https://owner.test/?k=v"}},
		{"DELETE", false, true, []string{"http://a.sub.test:1", "http://a.sub.test?", "http://plain.test:8"}},
		{"DELETE", true, true, []string{"http://a.sub.test:65535/"}},

		{"GET", true, false, []string{
			"", "https://", "https://evil.test/", "https://api.tests", "https://api.test/admin", "https://api.test/v",
			"https://api.test/v1", "https://api.test/v1/ x", "https://shadow.test/", "http://127.0.0.1:7777/",
			"https://owner.test/?key=v",
		}},
		{"GET", false, false, []string{
			"ftp://", "https:x", "https", "https://evil.test/", "http://api.test/", "https://api.test:8", "https://api.test:44x",
			"https://api.test/admin", "https://api.test/V", "https://api.test/v1x", "https://api.test/v1/../",
			"https://api.test/v1//", "https://api.test/v1/%zz/", "https://api.test/v1?", "https://api.test?",
			"https://api.test/v1/..?", "https://user@api.test/v1/", "https://user@", "https://u:p", "https://api.test/v1/x#",
			"https://api%2", "https://api.test./v1/", "https://-x:", "https://[::]:x/", "https://shadow.test/",
			"http://127.0.0.1:7777/", "https://self.sub.test/", "https://169.254.169.254/", "http://plain.test:80/",
			"http://x.sub.test:0",
		}},
		{"PUT", false, false, []string{"https://api.test/v1/"}},
		{"PUT", true, false, []string{"https://api.test/v1/x"}},
		{"TRACE", false, false, []string{"https://api.test/v1/"}},
		{"TRACE", true, false, []string{"https://a.sub.test/"}},
		{"x y", false, false, []string{""}},
		{"POST", false, false, []string{"https://agent.test/"}},
		{"POST", true, false, []string{"https://agent.test/x"}},
	} {
		for _, url := range group.urls {
			assert.Equal(t, group.want, p.Reaches(group.method, url, group.whole), "%s %s %t", group.method, url, group.whole)
		}
	}
	assert.False(t, (*policy.Policy)(nil).Reaches("", "", false))
	assert.True(t, shop(t).Reaches("GET", "https://any.test:4", false), "an entry for any host")
	assert.False(t, shop(t).Reaches("GET", "https://any.test:9", false))
	assert.True(t, shop(t).Reaches("GET", "https://[2606", false))
	assert.False(t, shop(t).Reaches("GET", "https://127.0.0.1/", false))
}

func TestAgentReaches(t *testing.T) {
	t.Parallel()
	p := narrow(t)
	for _, c := range []struct {
		method, url string
		whole, want bool
	}{
		{"", "", false, true},
		{"POST", "https://agent.test", true, true},
		{"post", "https://agent.test/", false, true},
		{"", "https://AGENT.test:443/x/", false, true},
		{"POST", "https://agent.test/x?y", true, true},
		{"POST", "https://agent", false, true},
		{"POST", "https://other", false, true}, // nobody learns how a host begins
		{"POST", "http://agent.test:8", false, true},
		{"POST", "ftp://", false, false},
		{"GET", "https://agent", false, false},
		{"GET", "https://agent.test/", true, false},
		{"TRACE", "", false, false},
		{"POST", "https://agent", true, false},
		{"POST", "https://other.test/", false, false},
		{"POST", "https://other.test/", true, false},
		{"POST", "http://agent.test/", false, false},
		{"POST", "https://api.test/v1/", false, false},
		{"POST", "https://u@agent.test/", true, false},
	} {
		assert.Equal(t, c.want, p.AgentReaches(c.method, c.url, c.whole), "%+v", c)
	}
	assert.False(t, shop(t).AgentReaches("", "", false), "no agents")
	assert.False(t, (*policy.Policy)(nil).AgentReaches("", "", false))
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
					if got := p.Reaches(m, url[:i], false); passes && !got {
						t.Fatalf("%s %q passes and %q does not lead there", m, url, url[:i])
					}
				}
			}
			if p.Reaches(method, url, true) {
				require.True(t, p.Reaches(method, url, false))
				require.True(t, p.Reaches("", url, true))
			} else if passes {
				t.Fatalf("%s %q passes", method, url)
			}
		}
	})
}
