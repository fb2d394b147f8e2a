// Package permit has the policy of a node for tests of what comes in: it is compiled from a configuration and
// decides as the one in force does.
package permit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/schemas"
)

// Policy is a compiled policy. One attempt may take 30 s.
type Policy struct{ *policy.Policy }

// Compile is the policy of a configuration.
func Compile(tb testing.TB, cfg policy.Config) Policy {
	tb.Helper()
	p, err := policy.Compile(cfg)
	require.NoError(tb, err)
	return Policy{p}
}

// Hosts is a policy that grants these hosts, and nothing else.
func Hosts(tb testing.TB, hosts ...string) Policy {
	tb.Helper()
	return Compile(tb, policy.Config{AllowedHosts: hosts})
}

// MaxTimeout is the longest that one attempt may take.
func (Policy) MaxTimeout() time.Duration { return 30 * time.Second }

// Evaluate decides about a call, and says its class.
func (p Policy) Evaluate(c schemas.HTTPCall) (schemas.Decision, schemas.Class) {
	d := p.Decide(policy.Request{
		Key: c.AllowlistKey, Method: c.Method, URL: c.URL, Headers: c.Headers,
		IdempotencyKey: c.IdempotencyKey, HasBody: c.Body != nil, BodySize: len(c.Body),
	})
	permit, _ := d.Permit()
	return d.Decision, policy.Class(c.Method, c.IdempotencyKey != "", permit)
}
