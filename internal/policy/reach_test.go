package policy_test

import (
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
	type at struct {
		method, url string
		whole       bool
	}
	for _, c := range []at{
		{"GET", "", false},
		{"", "h", false},
		{"GET", "HTTP", false},
		{"GET", "https:/", false},
		{"GET", "https://", false},
		{"POST", "https://a", false},
		{"POST", "https://API.test", false},
		{"POST", "https://api.test:", false},
		{"POST", "https://api.test:44", false},
		{"POST", "https://api.test/", false},
		{"POST", "https://api.test/v", false},
		{"POST", "https://api.test/v1", false},
		{"POST", "https://api.test/v1/", false},
		{"POST", "https://api.test/v1/..", false},
		{"post", "https://api.test/v1/x%4", false},
		{"POST", "https://api.test/v1/x?", false},
		{"POST", "https://api.test/v1/?q=%", false},
		{"", "https://api.test/v1/x", true},
		{"", "https://api.test:443/v1/x?q", true},
		{"GET", "http://shop.test:80", false},
		{"GET", "http://shop.test:8080/%c", false},
		{"GET", "http://shop.test:8080/%c3%a", false},
		{"GET", "http://shop.test:8080/%c3%a9/x", true},
		{"GET", "https://[", false},
		{"GET", "https://[2606:4700:0", false},
		{"GET", "https://[2606:4700:0::1111]/", false},
		{"GET", "https://any", false},
		{"DELETE", "http://a.sub.test:1", false},
		{"DELETE", "http://a.sub.test?", false},
		{"DELETE", "http://a.sub.test:65535/", true},
		{"DELETE", "http://plain.test:8", false},
		{"GET", "http://127.0.0.1:9000/", false},
		{"GET", "http://127.0.", false},
		{"GET", "https://owner.test/?k=v", true},
	} {
		assert.True(t, p.Reaches(c.method, c.url, c.whole), "%+v", c)
	}
	for _, c := range []at{
		{"GET", "", true},
		{"GET", "ftp", false},
		{"GET", "https:x", false},
		{"GET", "httpx", false},
		{"GET", "https", true},
		{"GET", "https://", true},
		{"GET", "https://evil.test/", false},
		{"GET", "https://evil.test/", true},
		{"GET", "https://api.tests", true},
		{"GET", "http://api.test/", false},
		{"GET", "https://api.test:8", false},
		{"GET", "https://api.test:44x", false},
		{"GET", "https://api.test/admin", false},
		{"GET", "https://api.test/admin", true},
		{"GET", "https://api.test/v", true},
		{"GET", "https://api.test/v1", true},
		{"GET", "https://api.test/V", false},
		{"GET", "https://api.test/v1x", false},
		{"GET", "https://api.test/v1/../", false},
		{"GET", "https://api.test/v1//", false},
		{"GET", "https://api.test/v1/%zz/", false},
		{"GET", "https://api.test/v1?", false},
		{"GET", "https://api.test?", false},
		{"GET", "https://api.test/v1/..?", false},
		{"GET", "https://user@api.test/v1/", false},
		{"GET", "https://user@", false},
		{"GET", "https://u:p", false},
		{"PUT", "https://api.test/v1/", false},
		{"PUT", "https://api.test/v1/x", true},
		{"TRACE", "https://api.test/v1/", false},
		{"TRACE", "https://a.sub.test/", true},
		{"x y", "", false},
		{"GET", "https://api.test/v1/x#", false},
		{"GET", "https://api.test/v1/ x", true},
		{"GET", "https://api%2", false},
		{"GET", "https://api.test./v1/", false},
		{"GET", "https://-x:", false},
		{"GET", "https://[::]:x/", false},
		{"GET", "https://shadow.test/", true},
		{"GET", "https://shadow.test/", false},
		{"POST", "https://agent.test/", false},
		{"POST", "https://agent.test/x", true},
		{"GET", "http://127.0.0.1:7777/", false},
		{"GET", "http://127.0.0.1:7777/", true},
		{"GET", "https://self.sub.test/", false},
		{"GET", "https://169.254.169.254/", false},
		{"GET", "http://plain.test:80/", false},
		{"GET", "http://x.sub.test:0", false},
		{"GET", "https://owner.test/?key=v", true},
	} {
		assert.False(t, p.Reaches(c.method, c.url, c.whole), "%+v", c)
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
