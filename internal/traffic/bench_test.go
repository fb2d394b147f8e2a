package traffic_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/traffic"
	"weir/schemas"
)

// crowds are sets of a thousand rules, each with a call that one of them is for.
func crowds(tb testing.TB) map[string]crowd {
	tb.Helper()
	out := map[string]crowd{}
	for name, format := range map[string][2]string{
		"one host":       {"https://h.example.com/api/v%d/*", "https://h.example.com/api/v%d/users?page=3"},
		"wildcard hosts": {"https://*.h%d.example.com/api/*", "https://eu.h%d.example.com/api/users?page=3"},
	} {
		doc := schemas.RuleSet{GlobalActive: true}
		for i := range schemas.MaxRules {
			r := delay(fmt.Sprintf("r%d", i), 10)
			r.Match.URLPattern = fmt.Sprintf(format[0], i)
			doc.Rules = append(doc.Rules, r)
		}
		out[name] = crowd{compile(tb, doc), fmt.Sprintf(format[1], schemas.MaxRules-1)}
	}
	return out
}

type crowd struct {
	set *traffic.Set
	url string
}

func call(url string) traffic.Call {
	return traffic.Call{
		Method: "POST", URL: url,
		Headers: []schemas.Header{{Name: "Accept", Value: "application/json"}, {Name: "Content-Type", Value: "application/json"}},
		Facts:   traffic.Facts{Kind: schemas.KindHTTP, Principal: "t-1", ActionID: "a-1"},
	}
}

// BenchmarkShape is what a call costs under a thousand rules.
func BenchmarkShape(b *testing.B) {
	now := time.Now()
	for name, c := range crowds(b) {
		for kind, call := range map[string]traffic.Call{"hit": call(c.url), "miss": call("https://other.example.com/api/users?page=3")} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if (c.set.Shape(call, now).Delay == 0) == (kind == "hit") {
						b.Fatal("another effect")
					}
				}
			})
		}
	}
}

// AllocsPerRun cannot run beside parallel tests.
//
//nolint:paralleltest // see above
func TestShapeAllocatesNothingWhereNothingMatches(t *testing.T) {
	now := time.Now()
	for name, c := range crowds(t) {
		miss := call("https://other.example.com/api/users?page=3")
		near := call(c.url)
		near.URL = strings.Replace(c.url, "https", "http", 1)
		for _, c2 := range []traffic.Call{miss, near} {
			require.Zero(t, c.set.Shape(c2, now).Delay, name)
			require.Zero(t, testing.AllocsPerRun(100, func() { c.set.Shape(c2, now) }), name)
		}
		hit := call(c.url)
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() { c.set.Shape(hit, now) }), 1.0, "%s: the ids of the rules", name)
	}
	var none *traffic.Set
	c := call("https://h.example.com/")
	require.Zero(t, testing.AllocsPerRun(100, func() { none.Shape(c, now) }))
}
