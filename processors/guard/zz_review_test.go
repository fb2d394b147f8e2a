package guard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/internal/weirtest/rulebook"
	"weir/processors/guard"
	"weir/schemas"
)

func TestZZHopHeaders(t *testing.T) {
	_, b, g := under(t, policy.Entry{Name: "one", URLPrefix: "https://up.example/", Methods: []string{"GET"}, Redirects: 2, Headers: map[string]string{"X-Key": "k"}})
	call := schemas.HTTPCall{Method: "GET", URL: "https://up.example/a", Headers: []schemas.Header{{Name: "x-key", Value: "mine"}}}
	_, d := g.Check(call, guard.Scope{})
	t.Log("without rules:", d.Allowed, d.Code, d.Reason)
	rm := rulebook.SetHeader("h", "https://up.example/a", "x-key", "")
	rm.Action.RequestHeaders[0].Op = schemas.HeaderRemove
	rm.Action.RequestHeaders[0].Value = ""
	b.Put(t, rm)
	p, d := g.Check(call, guard.Scope{})
	t.Log("with:", d.Allowed, d.Code, d.Reason, p.Call().Headers)
	require.True(t, p.Valid())
	hop, d := g.Hop(p, "/b", 302, 1)
	t.Log("hop:", hop.Valid(), d.Code, hop.Call().Headers, hop.Call().URL)
}

func BenchmarkZZ(bm *testing.B) {
	t := &testing.T{}
	r, b, g := under(t, entry("one"))
	_ = r
	call, scope := get("one"), guard.Scope{Tenant: "t"}
	run := func(name string, f func()) { bm.Run(name, func(bm *testing.B) { bm.ReportAllocs(); for range bm.N { f() } }) }
	bare := guard.New(r.now.Load, nil)
	run("bare check", func() { bare.Check(call, scope) })
	run("no set check", func() { g.Check(call, scope) })
	p, _ := g.Check(call, scope)
	run("no set reshaped", func() { g.Reshaped(p) })
	b.Put(t, rulebook.SetHeader("h", "https://up.example/*", "X-A", "1"), rulebook.Delay("d", "https://up.example/*", 10))
	run("match check", func() { g.Check(call, scope) })
	p2, _ := g.Check(call, scope)
	run("match reshaped", func() { g.Reshaped(p2) })
}
