package outbound_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var everyMethod = []string{"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST", "PATCH"}

// decide permits one call under one entry.
func decide(tb testing.TB, e policy.Entry, method, target string) policy.Permit {
	tb.Helper()
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{e}})
	require.NoError(tb, err)
	permit, ok := p.Decide(policy.Request{Key: e.Name, Method: method, URL: target}).Permit()
	require.True(tb, ok, "%+v", p.Decide(policy.Request{Key: e.Name, Method: method, URL: target}))
	return permit
}

// origin is a URL up to its path.
func origin(target string) string {
	slashes := 0
	for i := range target {
		if target[i] == '/' {
			if slashes++; slashes == 3 {
				return target[:i]
			}
		}
	}
	return target
}

// loopback permits one call to a server of this test.
func loopback(tb testing.TB, method, target string) policy.Permit {
	tb.Helper()
	return decide(tb, policy.Entry{Name: "local", URLPrefix: origin(target), Methods: everyMethod, Network: policy.NetworkLoopback}, method, target)
}

// public permits one call to a public host.
func public(tb testing.TB, method, target string) policy.Permit {
	tb.Helper()
	return decide(tb, policy.Entry{Name: "api", URLPrefix: origin(target), Methods: everyMethod}, method, target)
}
