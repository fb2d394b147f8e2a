package traffic_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/internal/traffic"
	"weir/schemas"
)

const thousand = 1000

// crowds are sets of a thousand rules, each with a call that one of them is for.
func crowds(tb testing.TB) map[string]struct {
	set *traffic.Set
	url string
} {
	tb.Helper()
	out := map[string]struct {
		set *traffic.Set
		url string
	}{}
	for name, pattern := range map[string]func(i int) (pattern, url string){
		"hundred hosts": func(i int) (string, string) {
			return fmt.Sprintf("https://h%d.example.com/api/%d/*", i%100, i), fmt.Sprintf("https://h%d.example.com/api/%d/users?page=3", i%100, i)
		},
		"one host": func(i int) (string, string) {
			return fmt.Sprintf("https://h.example.com/api/v%d/*", i), fmt.Sprintf("https://h.example.com/api/v%d/users?page=3", i)
		},
		"wildcard hosts": func(i int) (string, string) {
			return fmt.Sprintf("https://*.h%d.example.com/api/*", i), fmt.Sprintf("https://eu.h%d.example.com/api/users?page=3", i)
		},
		"one wildcard path": func(i int) (string, string) {
			return fmt.Sprintf("https://h.example.com/*/v%d", i), fmt.Sprintf("https://h.example.com/api/v%d?page=3", i)
		},
	} {
		doc := schemas.RuleSet{GlobalActive: true}
		var url string
		for i := range thousand {
			var p string
			p, url = pattern(i)
			r := delay(fmt.Sprintf("r%d", i), 10)
			r.Match.URLPattern = p
			doc.Rules = append(doc.Rules, r)
		}
		c := out[name]
		c.set, c.url = compile(tb, doc), url
		out[name] = c
	}
	return out
}

func call(url string) traffic.Call {
	return traffic.Call{
		Method: "POST", URL: url,
		Headers: []schemas.Header{{Name: "Accept", Value: "application/json"}, {Name: "Content-Type", Value: "application/json"}},
		Facts:   traffic.Facts{Kind: schemas.KindHTTP, Principal: "t-1", ActionID: "a-1"},
	}
}

// BenchmarkShape is what a call costs under a thousand rules, and what the rules
// and policy cost together.
func BenchmarkShape(b *testing.B) {
	now := time.Now()
	for name, c := range crowds(b) {
		hit, miss := call(c.url), call("https://other.example.com/api/users?page=3")
		b.Run(name+"/hit", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if c.set.Shape(hit, now).Delay == 0 {
					b.Fatal("no rule")
				}
			}
		})
		b.Run(name+"/miss", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if c.set.Shape(miss, now).Delay != 0 {
					b.Fatal("a rule")
				}
			}
		})
		p, err := policy.Compile(policy.Config{Entries: []policy.Entry{{Name: "any", URLPrefix: policy.AnyHost, Methods: []string{"GET", "POST"}}}})
		require.NoError(b, err)
		b.Run(name+"/with policy", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e := c.set.Shape(hit, now)
				if !p.Decide(policy.Request{Method: hit.Method, URL: hit.URL, Headers: e.Headers}).Allowed {
					b.Fatal("denied")
				}
			}
		})
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
