package policy_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/schemas"
)

// crowd is a policy of n entries, of which the last is the one that is asked
// for, and of more.
func crowd(tb testing.TB, n int, more ...policy.Entry) (*policy.Policy, policy.Request) {
	tb.Helper()
	var c policy.Config
	for i := range n {
		c.Entries = append(c.Entries, policy.Entry{Name: fmt.Sprintf("e%d", i), URLPrefix: fmt.Sprintf("https://h%d.example.com/api/v1/", i), Methods: []string{"GET", "POST"}})
	}
	c.Entries = append(c.Entries, more...)
	return compile(tb, c), policy.Request{
		Method: "POST", URL: fmt.Sprintf("https://h%d.example.com/api/v1/users/42/items?page=3&size=100", n-1), HasBody: true, BodySize: 512,
		Headers: []schemas.Header{{Name: "Accept", Value: "application/json"}, {Name: "Content-Type", Value: "application/json"}, {Name: "X-Request-ID", Value: "0190a0b0"}},
	}
}

func agent() policy.Entry {
	return policy.Entry{
		Name: "agent:A", Agent: true, URLPrefix: "https://agent.example.com/agents/run/", Methods: []string{"POST"},
		Headers: map[string]string{"Authorization": "Bearer ${secret:A}"},
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{1, 100} {
		p, r := crowd(b, n)
		keyed := r
		keyed.Key = fmt.Sprintf("e%d", n-1)
		shadowed, _ := crowd(b, n, policy.Entry{Name: "later", URLPrefix: "https://later.example.com/", Mode: policy.ModeShadow})
		manned, _ := crowd(b, n, agent())
		run := policy.Request{Agent: true, Key: "agent:A", Method: "POST", URL: "https://agent.example.com/agents/run/stream", HasBody: true, BodySize: 512}
		for _, c := range []struct {
			name string
			p    *policy.Policy
			r    policy.Request
		}{{"", p, r}, {"/shadow", shadowed, r}, {"/agent", manned, run}, {"/keyed", p, keyed}} {
			b.Run(strconv.Itoa(n)+c.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if !c.p.Decide(c.r).Allowed {
						b.Fatal("denied")
					}
				}
			})
		}
	}
}

// AllocsPerRun cannot run beside parallel tests.
//
//nolint:paralleltest // see above
func TestDecideAllocatesNothing(t *testing.T) {
	p, r := crowd(t, 100)
	escaped := r
	escaped.URL = "https://h99.example.com/api/v1/caf%C3%A9/a%20b"
	denied := r
	denied.URL = "https://h99.example.com/api/v2/"
	keyed := r
	keyed.Key = "e99"
	limited := r
	limited.Only = []string{"e98", "e99"}
	body := r
	body.Body = []byte(`{"a":1}`)
	// A shadow entry costs a second judgement; memory only where the two differ.
	shadowed, _ := crowd(t, 100, policy.Entry{Name: "later", URLPrefix: "https://later.example.com/", Mode: policy.ModeShadow})
	for name, r := range map[string]policy.Request{
		"allowed": r, "escaped": escaped, "denied": denied, "keyed": keyed, "limited": limited, "body": body,
	} {
		require.Zero(t, testing.AllocsPerRun(100, func() { p.Decide(r) }), name)
		require.Zero(t, testing.AllocsPerRun(100, func() { shadowed.Decide(r) }), "%s, beside a shadow", name)
	}
	adds, _ := crowd(t, 1, policy.Entry{Name: "adds", URLPrefix: "https://h.example.com/", Methods: []string{"POST"}, Query: map[string]string{"api_key": "1"}, CallerParams: []string{"page", "api*"}})
	asked := r
	asked.URL = "https://h.example.com/?page=3&api%5Fkeys=4"
	require.True(t, adds.Decide(asked).Allowed)
	require.Zero(t, testing.AllocsPerRun(100, func() { adds.Decide(asked) }), "a query is searched in place")
	manned, _ := crowd(t, 100, agent())
	run := policy.Request{Agent: true, Key: "agent:A", Method: "POST", URL: "https://agent.example.com/agents/run/stream", Headers: r.Headers[:1], HasBody: true}
	require.True(t, manned.Decide(run).Allowed)
	require.Zero(t, testing.AllocsPerRun(100, func() { manned.Decide(run) }), "a call of an agent")
	require.Zero(t, testing.AllocsPerRun(100, func() { manned.Decide(r) }), "a call beside agents")
	upper := r
	upper.URL = "https://H99.example.com/api/v1/"
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { p.Decide(upper) }), 1.0, "a host in capitals is copied")

	permit, ok := p.Decide(r).Permit()
	require.True(t, ok)
	public := addr("93.184.216.34")
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = permit.CheckAddr(public) }))
}
