package traffic_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"weir/internal/traffic"
	"weir/schemas"
)

// drawRule draws one of few patterns, so that rules meet.
func drawRule(t *rapid.T, id string) schemas.Rule {
	pattern := rapid.SampledFrom([]string{
		"*", "<all_urls>", "*://*/*", "https://*/*", "https://*.example/*", "https://a.example/*", "https://a*/*x", "https://a.example/x", "https://a.example/x*",
		"https://a.example/x/*", "https://a.example/x/y", "https://a.example/*y", "https://*.example/x/*", "https://b.example/*", "https://a.example:*/x*", "https://a.example/*/*",
	}).Draw(t, "pattern")
	var r schemas.Rule
	switch rapid.SampledFrom(schemas.RuleTypes()).Draw(t, "type") {
	case schemas.RuleMock:
		r = mock(id, pattern, `"`+id+`"`)
	case schemas.RuleRedirect:
		r = redirect(id, pattern, "https://z.example/"+id)
	case schemas.RuleDelay:
		r = delay(id, rapid.Int64Range(0, 100).Draw(t, "delay"))
		r.Match.URLPattern = pattern
	default:
		change := set("x-who", id)
		change.Op = rapid.SampledFrom([]string{"set", "append"}).Draw(t, "op")
		r = headers(id, pattern, []schemas.HeaderChange{change}, []schemas.HeaderChange{change})
	}
	r.Priority = rapid.IntRange(-1, 1).Draw(t, "priority")
	r.Match.Method = rapid.SampledFrom([]string{"ANY", "ANY", "GET", "POST"}).Draw(t, "method")
	r.Match.IncludeQuery = rapid.Bool().Draw(t, "query")
	r.Enabled = rapid.IntRange(0, 4).Draw(t, "enabled") > 0
	if rapid.Bool().Draw(t, "scoped") {
		r.Scope = rapid.SampledFrom([]*schemas.RuleScope{{Agent: "A"}, {ActionKind: schemas.KindRun}, {ActionKind: schemas.KindHTTP, Agent: "A"}, {Agent: "B"}}).Draw(t, "scope")
	}
	return r
}

func drawRules(t *rapid.T) []schemas.Rule {
	n := rapid.IntRange(0, 30).Draw(t, "rules")
	out := make([]schemas.Rule, n)
	for i := range out {
		out[i] = drawRule(t, fmt.Sprintf("r%02d", i))
	}
	return out
}

func drawCall(t *rapid.T) traffic.Call {
	c := get(rapid.SampledFrom([]string{
		"https://a.example/x", "https://a.example/x/y", "https://a.example/x?y", "https://a.example/", "https://a.example?x", "https://b.example/x", "https://a.example:8443/x", "http://a.example/x/y",
		"https://c.b.example/x/x",
	}).Draw(t, "url"))
	c.Headers = []schemas.Header{{Name: "X-Who", Value: "me"}}
	c.Facts = traffic.Facts{Kind: schemas.KindHTTP, TaskType: rapid.SampledFrom([]string{"A", "B", ""}).Draw(t, "agent")}
	return c
}

// stronger is the documented order, written down once more.
func stronger(a, b schemas.Rule) int {
	members := func(r schemas.Rule) int {
		if r.Scope == nil {
			return 0
		}
		return 4 - strings.Count(fmt.Sprintf("%q", []string{string(r.Scope.ActionKind), r.Scope.Agent, r.Scope.TaskID, r.Scope.RequestID}), `""`)
	}
	named := func(r schemas.Rule) int {
		if r.Match.Method == "ANY" {
			return 0
		}
		return 1
	}
	literal := func(r schemas.Rule) int {
		if r.Match.URLPattern == "<all_urls>" {
			return 0
		}
		return len(strings.ReplaceAll(r.Match.URLPattern, "*", ""))
	}
	return cmp.Or(b.Priority-a.Priority, members(b)-members(a), named(b)-named(a), literal(b)-literal(a), strings.Compare(a.ID, b.ID))
}

// The rules of a set do to a call what each says alone, in the documented order:
// the index loses none and the order they were made in does not matter.
func TestShapeIsWhatTheRulesSay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		rules, c := drawRules(rt), drawCall(rt)
		var alone []schemas.Rule
		for _, r := range rules {
			if len(setOf(t, r).Shape(c, noon()).Rules) > 0 {
				alone = append(alone, r)
			}
		}
		slices.SortFunc(alone, stronger)
		want := traffic.Effect{Etag: "etag-1-x", Headers: c.Headers}
		var winner *schemas.Rule
		for _, r := range alone {
			if winner == nil && (r.Type == schemas.RuleMock || r.Type == schemas.RuleRedirect) {
				winner = &r
				want.Rules = append(want.Rules, r.ID)
			}
		}
		slices.Reverse(alone)
		for _, r := range alone {
			if r.Type == schemas.RuleHeaders {
				want.Headers = setOf(t, r).Shape(traffic.Call{Method: c.Method, URL: c.URL, Facts: c.Facts, Headers: want.Headers}, noon()).Headers
				want.Response = append(want.Response, r.Action.ResponseHeaders...)
				want.Rules = append(want.Rules, r.ID)
			}
		}
		for _, r := range alone {
			if r.Type == schemas.RuleDelay {
				want.Delay += setOf(t, r).Shape(c, noon()).Delay
				want.Rules = append(want.Rules, r.ID)
			}
		}
		got := setOf(t, rapid.Permutation(rules).Draw(rt, "order")...).Shape(c, noon())
		require.Equal(rt, want.Rules, got.Rules)
		require.Equal(rt, want.Headers, got.Headers)
		require.Equal(rt, want.Response, got.Response)
		require.Equal(rt, want.Delay, got.Delay)
		if winner == nil {
			require.Empty(rt, got.Redirect+got.Mock)
			return
		}
		require.Equal(rt, winner.ID, got.Redirect+got.Mock)
		require.Equal(rt, winner.Type == schemas.RuleMock, got.Answer != nil)
		require.Equal(rt, winner.Type == schemas.RuleRedirect, strings.HasPrefix(got.URL, "https://z.example/"))
	})
}

// Verdicts name the rules that apply, and no other rule applies.
func TestVerdictsAgreeWithShape(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		rules, c := drawRules(rt), drawCall(rt)
		s := setOf(t, rules...)
		var applying, all []string
		for _, v := range s.Verdicts(c, noon()) {
			require.Equal(rt, v.Applies, v.Reason == "")
			all = append(all, v.ID)
			if v.Applies {
				applying = append(applying, v.ID)
			}
		}
		require.ElementsMatch(rt, applying, s.Shape(c, noon()).Rules)
		byID := map[string]schemas.Rule{}
		for _, r := range rules {
			byID[r.ID] = r
		}
		require.True(rt, slices.IsSortedFunc(all, func(a, b string) int { return stronger(byID[a], byID[b]) }))
	})
}

// What a glob matches is what a matcher that tries everything finds.
func TestGlobsMatchWhatTheySay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		pattern := rapid.StringMatching(`[ab*]{0,8}`).Draw(rt, "pattern")
		text := rapid.StringMatching(`[ab]{0,10}`).Draw(rt, "text")
		s := setOf(t, mock("m", "https://a.example/"+pattern, `1`))
		require.Equal(rt, anywhere(pattern, text), s.Shape(get("https://a.example/"+text), noon()).Mock == "m")
	})
}

func anywhere(pattern, text string) bool {
	switch {
	case pattern == "":
		return text == ""
	case pattern[0] == '*':
		return anywhere(pattern[1:], text) || text != "" && anywhere(pattern, text[1:])
	default:
		return text != "" && text[0] == pattern[0] && anywhere(pattern[1:], text[1:])
	}
}
