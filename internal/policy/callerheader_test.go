package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/schemas"
)

// What CallerHeader refuses, Decide refuses, and what it lets pass, Decide does
// under an entry that adds a credential elsewhere. AnswerHeader refuses no more.
func TestHeadersThatNobodySets(t *testing.T) {
	t.Parallel()
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{{
		Name: "a", URLPrefix: "https://a.example/", Query: map[string]string{"key": "${secret:A}"}, CallerHeaders: []string{"*"},
	}}})
	require.NoError(t, err)
	for _, c := range []struct {
		name, value    string
		caller, answer bool
	}{
		{"X-A", "1", true, true},
		{"x-a", "", true, true},
		{"Content-Type", "application/json", true, true},
		{"Location", "https://a.example/", true, true},
		{"WWW-Authenticate", "Basic", false, true},
		{"X-Forwarded-For", "1.2.3.4", false, true},
		{"X-Forwarded-For", "a\r\nb: c", false, false},
		{"X-Request-Token", "${secret:A}", false, false},
		{"Idempotency-Key", "1", false, true},
		{"Metadata-Flavor", "Google", false, true},
		{"Set-Cookie", "a=b", false, false},
		{"set_cookie", "a=b", false, false},
		{"Cookie", "a=b", false, false},
		{"Authorization", "x", false, false},
		{"Host", "x", false, false},
		{"Content-Length", "1", false, false},
		{"Content-Encoding", "gzip", false, false},
		{"Transfer-Encoding", "chunked", false, false},
		{"Connection", "close", false, false},
		{"Trailer", "x", false, false},
		{"Proxy-Authenticate", "Basic", false, false},
		{"", "", false, false},
		{"X A", "", false, false},
		{"X-A", "å", false, false},
		{"X-A", "{{a}}", false, false},
	} {
		require.Equal(t, c.caller, policy.CallerHeader(c.name, c.value) == nil, "%s: %s", c.name, c.value)
		require.Equal(t, c.answer, policy.AnswerHeader(c.name, c.value) == nil, "%s: %s", c.name, c.value)
		d := p.Decide(policy.Request{Method: "GET", URL: "https://a.example/", Headers: []schemas.Header{{Name: c.name, Value: c.value}}})
		require.Equal(t, c.caller, d.Allowed, "%s: %s", c.name, c.value)
	}
}
