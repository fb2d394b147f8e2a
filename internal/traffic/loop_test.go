package traffic_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/traffic"
	"weir/schemas"
)

// chainOf are n redirects, each to the path of the next; the last leads to an end.
func chainOf(n int, end string) []schemas.Rule {
	var out []schemas.Rule
	for i := range n {
		to := fmt.Sprintf("https://a.example/%d", i+1)
		if i == n-1 {
			to = end
		}
		out = append(out, redirect(fmt.Sprintf("r%d", i), fmt.Sprintf("https://a.example/%d", i), to))
	}
	return out
}

func method(r schemas.Rule, m string) schemas.Rule {
	return with(r, func(r *schemas.Rule) { r.Match.Method = m })
}

func scope(r schemas.Rule, s schemas.RuleScope) schemas.Rule {
	return with(r, func(r *schemas.Rule) { r.Scope = &s })
}

// Each set is asked about a call, and about its last rule before it was in it.
func TestLoops(t *testing.T) {
	t.Parallel()
	const x, y = "https://a.example/x", "https://a.example/y"
	for name, c := range map[string]struct {
		rules    []schemas.Rule
		url      string // default x
		loop     bool
		circular string
	}{
		"one way":         {rules: []schemas.Rule{redirect("r", x, y)}},
		"two":             {rules: []schemas.Rule{redirect("r1", x, y), redirect("r2", y, x)}, loop: true, circular: "r1"},
		"identity":        {rules: []schemas.Rule{redirect("r", x, x)}, loop: true, circular: "r"},
		"identity dress":  {rules: []schemas.Rule{redirect("r", x, "HTTPS://A.example:443/x")}, loop: true, circular: "r"},
		"all to one":      {rules: []schemas.Rule{redirect("r", "<all_urls>", "http://sandbox.example/")}},
		"a dry run":       {rules: []schemas.Rule{redirect("r", x, x+"?dry=1")}},
		"identity filled": {rules: []schemas.Rule{redirect("r", "https://a.example/*", "https://a.example/$1")}, loop: true, circular: "r"},
		"to https":        {rules: []schemas.Rule{redirect("r", "*://a.example/*", "https://a.example/$2")}, url: "http://a.example/x"},
		"to one place":    {rules: []schemas.Rule{redirect("r", "http://*/*", "http://sandbox.example/$2")}, url: "http://a.example/x"},
		"there already":   {rules: []schemas.Rule{redirect("r", "http://*/*", "http://sandbox.example/$2")}, url: "http://sandbox.example/x"},
		"all in one":      {rules: []schemas.Rule{redirect("r", "https://a.example/*", "https://a.example/")}, url: "https://a.example/"},
		"http to https":   {rules: []schemas.Rule{redirect("r", "http://a.example/*", "https://a.example/$1")}, url: "http://a.example/x"},
		"grows":           {rules: []schemas.Rule{redirect("r", "https://a.example/*", "https://a.example/v2/$1")}},
		"grows and ends":  {rules: []schemas.Rule{redirect("r1", "https://a.example/*", "https://a.example/v2/$1"), priority(redirect("r2", "https://a.example/v2/v2/*", "https://a.example/$1"), 1)}, loop: true, circular: "r1"},
		"swap":            {rules: []schemas.Rule{redirect("r", "https://a.example/*/*", "https://a.example/$2/$1")}, url: "https://a.example/1/2", loop: true, circular: "r"},
		"doubled":         {rules: []schemas.Rule{redirect("r", "https://a.example/*/*", "https://a.example/$2/$2")}, url: "https://a.example/1/2"},
		"equal by chance": {rules: []schemas.Rule{redirect("r", "https://a.example/v1/*/*", "https://a.example/$2/$1/$2")}, url: "https://a.example/v1/1/v1"},
		"with the query":  {rules: []schemas.Rule{redirect("r1", x, y), redirect("r2", y, x)}, url: x + "?q=1", loop: true, circular: "r1"},
		"another query":   {rules: []schemas.Rule{redirect("r1", x, y), redirect("r2", y, x+"?q=2")}, url: x + "?q=1", loop: true, circular: "r1"},
		"leads into one":  {rules: []schemas.Rule{redirect("r1", "https://a.example/1", "https://a.example/2"), redirect("r2", "https://a.example/2", "https://a.example/1"), redirect("r3", x, "https://a.example/1")}, loop: true, circular: "r1"},
		"mock between":    {rules: []schemas.Rule{priority(mock("m", y, `1`), 1), redirect("r2", y, x), redirect("r1", x, y)}},
		"disabled":        {rules: []schemas.Rule{with(redirect("r1", y, x), func(r *schemas.Rule) { r.Enabled = false }), redirect("r2", x, y)}},
		"only in part":    {rules: []schemas.Rule{redirect("r1", "https://a.example/v2/foo", "https://a.example/v1/foo"), redirect("r2", "https://a.example/v1/*", "https://a.example/v2/$1")}, url: "https://a.example/v1/foo", loop: true, circular: "r1"},
		"not in this one": {rules: []schemas.Rule{redirect("r1", "https://a.example/v2/foo", "https://a.example/v1/foo"), redirect("r2", "https://a.example/v1/*", "https://a.example/v2/$1")}, url: "https://a.example/v1/bar", circular: "r1"},
		"one method of a part": {
			rules:    []schemas.Rule{redirect("r1", "https://a.example/v2/foo", "https://a.example/v1/foo"), method(redirect("r2", "https://a.example/v1/*", "https://a.example/v2/$1"), "POST")},
			url:      "https://a.example/v1/foo",
			circular: "r1",
		},
		"the same method": {rules: []schemas.Rule{method(redirect("r1", x, y), "POST"), method(redirect("r2", y, x), "POST")}, circular: "r1"},
		"methods apart":   {rules: []schemas.Rule{method(redirect("r1", x, y), "GET"), method(redirect("r2", y, x), "POST")}},
		"one method":      {rules: []schemas.Rule{redirect("r1", x, y), method(redirect("r2", y, x), "POST")}, circular: "r1"},
		"method of a third": {
			rules:    []schemas.Rule{method(redirect("r1", "https://a.example/z", x), "GET"), redirect("r2", y, "https://a.example/z"), redirect("r3", x, y)},
			loop:     true,
			circular: "r2",
		},
		"scopes apart": {rules: []schemas.Rule{scope(redirect("r1", x, y), schemas.RuleScope{TaskID: "1"}), scope(redirect("r2", y, x), schemas.RuleScope{TaskID: "2"})}},
		"scopes meet": {
			rules:    []schemas.Rule{scope(redirect("r1", x, y), schemas.RuleScope{TaskID: "1", Agent: "A"}), scope(redirect("r2", y, x), schemas.RuleScope{ActionKind: "http", Agent: "t-1"})},
			circular: "r1",
		},
		"hosts":         {rules: []schemas.Rule{redirect("r1", "https://*.a.example/*", "https://$1.b.example/$2"), redirect("r2", "https://*.b.example/*", "https://$1.a.example/$2")}, url: "https://eu.a.example/q", loop: true, circular: "r1"},
		"ports":         {rules: []schemas.Rule{redirect("r1", "http://a.example:*/x", "http://b.example:$1/x"), redirect("r2", "http://b.example:*/x", "http://a.example:$1/x")}, url: "http://a.example:81/x", loop: true, circular: "r1"},
		"long chain":    {rules: chainOf(40, "https://b.example/"), url: "https://a.example/0"},
		"long circle":   {rules: chainOf(40, "https://a.example/0"), url: "https://a.example/0", loop: true, circular: "r38"},
		"no URL behind": {rules: []schemas.Rule{redirect("r", "https://a.example/*", "https://$1/")}, url: "https://a.example/%41", loop: false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := c.url
			if url == "" {
				url = x
			}
			e := setOf(t, c.rules...).Shape(get(url), noon())
			require.Equal(t, c.loop, e.Loop, "%+v", e)
			last := len(c.rules) - 1
			before := setOf(t, c.rules[:last]...)
			require.Equal(t, c.circular == "", before.Circular(c.rules[last]) == "", before.Circular(c.rules[last]))
			if c.circular != "" && last < 10 {
				require.Equal(t, c.circular, before.Circular(c.rules[last]))
			}
			require.Equal(t, before.Circular(c.rules[last]), setOf(t, c.rules...).Circular(c.rules[last]), "a rule takes its own place")
		})
	}
}

func TestCircularTakesTheRuleForEnabled(t *testing.T) {
	t.Parallel()
	s := compile(t, schemas.RuleSet{Rules: []schemas.Rule{redirect("r1", "https://a.example/x", "https://a.example/y")}})
	off := with(redirect("r2", "https://a.example/y", "https://a.example/x"), func(r *schemas.Rule) { r.Enabled = false })
	require.Equal(t, "r1", s.Circular(off), "and the set for active")
	require.Empty(t, s.Circular(mock("m", "*", `1`)))
	require.Empty(t, s.Circular(redirect("bad", "*", "")))
}

// What is looked at in search of circles is bounded, whatever the rules: long paths take more looks.
func TestCircularLooksAtSoMuch(t *testing.T) {
	t.Parallel()
	for dir, seen := range map[string]bool{"": true, strings.Repeat("a", 1900) + "/": false} {
		chain := chainOf(schemas.MaxRules, "https://b.example/") // nearly a circle, and one
		for i := range chain {
			for _, url := range []*string{&chain[i].Match.URLPattern, &chain[i].Action.ToURL} {
				*url = strings.Replace(*url, "a.example/", "a.example/"+dir, 1)
			}
		}
		require.Empty(t, setOf(t, chain[1:]...).Circular(chain[0]))
		chain[schemas.MaxRules-1].Action.ToURL = chain[0].Match.URLPattern
		require.Equal(t, seen, setOf(t, chain[1:]...).Circular(chain[0]) != "", "beyond the bound none is seen")
		self := redirect("self", "https://a.example/self", "https://a.example/self")
		require.Equal(t, "self", setOf(t, chain[1:]...).Circular(self), "the rule itself comes first")
	}
}

func TestTargetPrefix(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ from, to, prefix string }{
		{"https://a.example/*", "https://b.example/v1", "https://b.example/v1"},
		{"https://a.example/*", "https://b.example/v1/$1", "https://b.example/v1/"},
		{"https://a.example/*", "https://$1/", "https://"},
		{"https://a.example/*", "https://b.example:$1/", "https://b.example:"},
		{"*://*.a.example:*/*", "$1://$2.b.example:$3/", ""},
		{"*", "https://b.example/?u=$1", "https://b.example/?u="},
	} {
		r := redirect("r", c.from, c.to)
		require.Equal(t, c.prefix, traffic.TargetPrefix(r), c.to)
		compile(t, schemas.RuleSet{Rules: []schemas.Rule{r}})
	}
	for _, r := range []schemas.Rule{mock("m", "*", `1`), redirect("r", "*", "nowhere")} {
		require.Empty(t, traffic.TargetPrefix(r))
	}
}
