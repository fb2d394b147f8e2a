package traffic_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/internal/traffic"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

func set(name, value string) schemas.HeaderChange {
	return schemas.HeaderChange{Op: schemas.HeaderSet, Name: name, Value: value}
}

func add(name, value string) schemas.HeaderChange {
	return schemas.HeaderChange{Op: schemas.HeaderAppend, Name: name, Value: value}
}

func remove(name string) schemas.HeaderChange {
	return schemas.HeaderChange{Op: schemas.HeaderRemove, Name: name}
}

const here = "https://a.example/x"

func with(r schemas.Rule, change func(*schemas.Rule)) schemas.Rule {
	change(&r)
	return r
}

func priority(r schemas.Rule, n int) schemas.Rule {
	return with(r, func(r *schemas.Rule) { r.Priority = n })
}

func TestNoRulesNoEffect(t *testing.T) {
	t.Parallel()
	c := get(here)
	c.Headers = []schemas.Header{{Name: "Accept", Value: "*/*"}}
	off := compile(t, schemas.RuleSet{Rules: []schemas.Rule{mock("m", "*", `1`)}})
	for _, s := range []*traffic.Set{nil, setOf(t), off} {
		require.Equal(t, traffic.Effect{Etag: s.Etag(), Headers: c.Headers}, s.Shape(c, noon()))
		require.Empty(t, s.Verdicts(get("nowhere"), noon()))
	}
	one, err := (*traffic.Set)(nil).With(mock("m", "*", `1`))
	require.NoError(t, err)
	require.Equal(t, "m", one.Shape(c, noon()).Mock)
}

func TestScopes(t *testing.T) {
	t.Parallel()
	facts := traffic.Facts{Kind: schemas.KindRun, TaskType: "LIT", Principal: "t-1", TaskID: "task", ActionID: "a-1"}
	type testCase struct {
		scope schemas.RuleScope
		want  string
	}
	table.Run(t, map[string]testCase{
		"kind":            {schemas.RuleScope{ActionKind: schemas.KindRun}, ""},
		"task type":       {schemas.RuleScope{Agent: "LIT"}, ""},
		"principal":       {schemas.RuleScope{Agent: "t-1"}, ""},
		"all":             {schemas.RuleScope{ActionKind: schemas.KindRun, Agent: "t-1", TaskID: "task", RequestID: "a-1"}, ""},
		"another kind":    {schemas.RuleScope{ActionKind: schemas.KindPlan}, "the rule's scope is another action_kind"},
		"another agent":   {schemas.RuleScope{Agent: "lit"}, "the rule's scope is another agent"},
		"another task":    {schemas.RuleScope{TaskID: "a-1"}, "the rule's scope is another task_id"},
		"another request": {schemas.RuleScope{RequestID: "task"}, "the rule's scope is another request_id"},
		"one of all":      {schemas.RuleScope{ActionKind: schemas.KindRun, Agent: "t-1", TaskID: "task", RequestID: "a-2"}, "the rule's scope is another request_id"},
	}, func(t *testing.T, c testCase) {
		s := setOf(t, with(delay("d", 5), func(r *schemas.Rule) { r.Scope = &c.scope }))
		call := get(here)
		call.Facts = facts
		require.Equal(t, c.want == "", s.Shape(call, noon()).Delay == 5*time.Millisecond)
		require.Equal(t, []schemas.RuleVerdict{{ID: "d", Type: "delay", Applies: c.want == "", Reason: c.want}}, s.Verdicts(call, noon()))
		require.Empty(t, setOf(t, with(delay("d", 5), func(r *schemas.Rule) { r.Scope = &c.scope })).Shape(get(here), noon()).Rules, "no facts, no scope")
	})
}

func TestVerdictsSayWhyNot(t *testing.T) {
	t.Parallel()
	old := setOf(t, with(mock("m", "*", `1`), func(r *schemas.Rule) { r.ExpiresAt, r.Match.Method = noon(), "GET" }))
	require.Equal(t, "m", old.Shape(get(here), noon().Add(-time.Nanosecond)).Mock)
	require.Empty(t, old.Shape(get(here), noon()).Mock)
	require.Equal(t, "the rule has expired", old.Verdicts(get(here), noon())[0].Reason)
	require.Empty(t, old.Verdicts(traffic.Call{Method: "POST", URL: here}, noon()), "another method")
	rules := []schemas.Rule{
		with(mock("disabled", "*", `1`), func(r *schemas.Rule) { r.Enabled, r.Priority = false, 9 }),
		priority(mock("first", "*", `1`), 8), priority(redirect("second", "*", "https://b.example/"), 7), delay("slow", 1), mock("elsewhere", "https://b.example/", `1`),
	}
	s := setOf(t, rules...)
	require.Equal(t, []schemas.RuleVerdict{
		{ID: "disabled", Type: "mock", Reason: "the rule is disabled"},
		{ID: "first", Type: "mock", Applies: true},
		{ID: "second", Type: "redirect", Reason: "rule first comes first, and one redirect or mock alone says where a call goes"},
		{ID: "slow", Type: "delay", Applies: true},
	}, s.Verdicts(get(here), noon()))
	require.Equal(t, []string{"first", "slow"}, s.Shape(get(here), noon()).Rules)
	require.Empty(t, s.Verdicts(get("nowhere"), noon()))

	off := compile(t, schemas.RuleSet{Rules: rules})
	for _, v := range off.Verdicts(get(here), noon()) {
		require.Equal(t, "all rules are off", v.Reason)
		require.False(t, v.Applies)
	}
}

func TestMocksAnswer(t *testing.T) {
	t.Parallel()
	type testCase struct {
		action schemas.RuleAction
		want   traffic.Answer
	}
	table.Run(t, map[string]testCase{
		"nothing": {schemas.RuleAction{}, traffic.Answer{Status: 200}},
		"json": {
			schemas.RuleAction{BodyMode: "json", Body: json.RawMessage(`{"n":1.50}`), Status: 201, Headers: map[string]string{"X-B": "2", "x-a": "1"}},
			traffic.Answer{
				Status: 201, Body: []byte(`{"n":1.50}`),
				Headers: []schemas.Header{{Name: "content-type", Value: "application/json"}, {Name: "x-a", Value: "1"}, {Name: "x-b", Value: "2"}},
			},
		},
		"json in a string": { // the protocol's own form
			schemas.RuleAction{BodyMode: "json", Body: json.RawMessage(`" {\"n\":1.50}"`)},
			traffic.Answer{Status: 200, Body: []byte(` {"n":1.50}`), Headers: []schemas.Header{{Name: "content-type", Value: "application/json"}}},
		},
		"a string in a string": {
			schemas.RuleAction{BodyMode: "json", Body: json.RawMessage(`"\"12\""`)},
			traffic.Answer{Status: 200, Body: []byte(`"12"`), Headers: []schemas.Header{{Name: "content-type", Value: "application/json"}}},
		},
		"a string of no json": {
			schemas.RuleAction{BodyMode: "json", Body: json.RawMessage(`"{n:1}"`)},
			traffic.Answer{Status: 200, Body: []byte(`"{n:1}"`), Headers: []schemas.Header{{Name: "content-type", Value: "application/json"}}},
		},
		"text": {
			schemas.RuleAction{BodyMode: "text", Body: json.RawMessage(`"h\u00e9\n"`)},
			traffic.Answer{Status: 200, Body: []byte("hé\n"), Headers: []schemas.Header{{Name: "content-type", Value: "text/plain; charset=utf-8"}}},
		},
		"raw": {schemas.RuleAction{BodyMode: "raw", Body: json.RawMessage(`"<x/>"`)}, traffic.Answer{Status: 200, Body: []byte("<x/>")}},
		"own type": {
			schemas.RuleAction{BodyMode: "json", Body: json.RawMessage(`1`), Headers: map[string]string{"Content-Type": "application/x"}},
			traffic.Answer{Status: 200, Body: []byte("1"), Headers: []schemas.Header{{Name: "content-type", Value: "application/x"}}},
		},
	}, func(t *testing.T, c testCase) {
		r := base("m", schemas.RuleMock, "*")
		r.Action = c.action
		e := setOf(t, r).Shape(get(here), noon())
		require.Equal(t, "m", e.Mock)
		require.Equal(t, &c.want, e.Answer)
		require.Equal(t, []string{"m"}, e.Rules)
		require.Empty(t, e.URL)
		require.False(t, e.Changes(), "policy sees the call as it was")
	})
}

func TestEffectsCompose(t *testing.T) {
	t.Parallel()
	s := setOf(t,
		priority(headers("h-high", "*", []schemas.HeaderChange{set("X-Who", "high"), add("Accept", "a/high")}, []schemas.HeaderChange{set("x-who", "high")}), 5),
		headers("h-low", "*", []schemas.HeaderChange{set("x-who", "low"), add("accept", "a/low"), remove("X-Gone")}, []schemas.HeaderChange{set("x-who", "low")}),
		priority(headers("h-answer", "*", nil, []schemas.HeaderChange{remove("server")}), 1),
		priority(delay("d-high", 30), 3), delay("d-low", 12),
		redirect("r", "https://a.example/*", "https://b.example/$1"),
	)
	c := get(here)
	c.Headers = []schemas.Header{{Name: "ACCEPT", Value: "a/own"}, {Name: "X-Gone", Value: "1"}, {Name: "X-Who", Value: "me"}}
	e := s.Shape(c, noon())
	require.Equal(t, []string{"r", "h-low", "h-high", "d-low", "d-high", "h-answer"}, e.Rules)
	require.Equal(t, []schemas.Header{{Name: "ACCEPT", Value: "a/own, a/low, a/high"}, {Name: "X-Who", Value: "high"}}, e.Headers)
	require.Equal(t, []schemas.HeaderChange{set("x-who", "low"), remove("server"), set("x-who", "high")}, e.Response)
	require.Equal(t, 42*time.Millisecond, e.Delay)
	require.Equal(t, []string{"d-low", "d-high"}, e.Delays)
	require.Equal(t, "https://b.example/x", e.URL)
	require.True(t, e.Changes())
	require.Equal(t, "me", c.Headers[2].Value, "the call is not changed")
	require.Equal(t, e, s.Shape(c, noon()))
}

func TestChangesAndSame(t *testing.T) {
	t.Parallel()
	shape := func(rules ...schemas.Rule) traffic.Effect { return setOf(t, rules...).Shape(get(here), noon()) }
	base := []traffic.Effect{
		shape(), shape(mock("m", "*", `1`)), shape(mock("m", "*", `2`)), shape(mock("n", "*", `1`)), shape(delay("d", 1)), shape(delay("d", 2)),
		shape(redirect("r", "*", "https://b.example/")), shape(redirect("r", "*", "https://c.example/")),
		shape(headers("h", "*", []schemas.HeaderChange{set("X", "1")}, nil)), shape(headers("h", "*", []schemas.HeaderChange{set("X", "2")}, nil)),
		shape(headers("h", "*", nil, []schemas.HeaderChange{set("X", "1")})), shape(headers("h", "*", nil, []schemas.HeaderChange{set("X", "2")})),
	}
	for i, a := range base {
		for j, b := range base {
			require.Equal(t, i == j, a.Same(b), "%d %d", i, j)
		}
	}
	again := shape(mock("m", "*", `1`))
	again.Etag = "etag-2-y"
	require.True(t, again.Same(base[1]), "whatever the version")

	require.False(t, base[4].Changes())
	require.False(t, base[10].Changes())
	require.True(t, base[8].Changes())
	require.False(t, shape(headers("h", "*", []schemas.HeaderChange{remove("X")}, nil)).Changes(), "there was none to remove")
}

func TestEditHeaders(t *testing.T) {
	t.Parallel()
	given := []schemas.Header{{Name: "a", Value: "1"}, {Name: "link", Value: "<1>"}, {Name: "link", Value: "<2>"}, {Name: "z", Value: ""}}
	type testCase struct {
		changes []schemas.HeaderChange
		want    []schemas.Header
	}
	table.Run(t, map[string]testCase{
		"none":           {nil, given},
		"set":            {[]schemas.HeaderChange{set("Link", "<3>")}, []schemas.Header{{Name: "a", Value: "1"}, {Name: "link", Value: "<3>"}, {Name: "z", Value: ""}}},
		"set new":        {[]schemas.HeaderChange{set("B", "")}, []schemas.Header{given[0], {Name: "b", Value: ""}, given[1], given[2], given[3]}},
		"append":         {[]schemas.HeaderChange{add("LINK", "<3>")}, []schemas.Header{given[0], given[1], {Name: "link", Value: "<2>, <3>"}, given[3]}},
		"append new":     {[]schemas.HeaderChange{add("zz", "1")}, append(given[:4:4], schemas.Header{Name: "zz", Value: "1"})},
		"append to none": {[]schemas.HeaderChange{add("z", "1")}, []schemas.Header{given[0], given[1], given[2], {Name: "z", Value: "1"}}},
		"remove":         {[]schemas.HeaderChange{remove("Link"), remove("none")}, []schemas.Header{given[0], given[3]}},
		"in order":       {[]schemas.HeaderChange{remove("a"), add("a", "2"), set("link", "1"), remove("link")}, []schemas.Header{{Name: "a", Value: "2"}, given[3]}},
	}, func(t *testing.T, c testCase) {
		require.Equal(t, c.want, traffic.EditHeaders(given, c.changes))
		require.Equal(t, "<2>", given[2].Value)
	})
}

func TestChangesOfHeadersAreBounded(t *testing.T) {
	t.Parallel()
	const most = traffic.MaxChanges / schemas.MaxRuleHeaders
	flood := func(n int, request bool) (rules []schemas.Rule) {
		for i := range n {
			var in, out []schemas.HeaderChange
			for j := range schemas.MaxRuleHeaders {
				if c := set(fmt.Sprintf("X-%d-%d", i, j), "1"); request {
					in = append(in, c)
				} else {
					out = append(out, c)
				}
			}
			rules = append(rules, headers(fmt.Sprintf("h%t%d", request, i), "*", in, out))
		}
		return rules
	}
	c := get(here)
	c.Headers = []schemas.Header{{Name: "Accept", Value: "*/*"}}
	shape := func(rules ...schemas.Rule) traffic.Effect { return setOf(t, rules...).Shape(c, noon()) }
	whole, answered := shape(flood(most, true)...), shape(flood(most, false)...)
	require.False(t, whole.Excess || answered.Excess)
	require.Greater(t, len(whole.Headers), policy.MaxHeaders, "policy denies the call")
	require.LessOrEqual(t, len(whole.Headers), policy.MaxHeaders+schemas.MaxRuleHeaders, "and no more are made")
	require.Len(t, answered.Response, traffic.MaxChanges)
	for _, request := range []bool{true, false} {
		more := shape(flood(most+1, request)...)
		require.True(t, more.Excess)
		require.Equal(t, c.Headers, more.Headers)
		require.Empty(t, more.Response)
		require.Len(t, more.Rules, most+1)
		require.False(t, more.Same(whole))
	}
	both := append(flood(most/2, true), flood(most/2, false)...)
	require.False(t, shape(both...).Excess)
	require.True(t, shape(append(both, headers("one", "*", nil, []schemas.HeaderChange{remove("x")}))...).Excess)
}

// TestCompileRefuses what no caller could have written: the fixtures show the rest.
func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	late := with(mock("b", "*", `1`), func(r *schemas.Rule) { r.ExpiresAt = time.Unix(1, 0) })
	for want, rules := range map[string][]schemas.Rule{
		"rule 2 of the set: at /id: appears twice in the set": {priority(mock("a", "*", `1`), 4), mock("c", "*", `1`), mock("a", "*", `1`)},
		"at /action/body":                 {mock("b", "*", `{`)},
		"at /group":                       {with(delay("d", 1), func(r *schemas.Rule) { r.Group = "" })},
		"at /match/method":                {with(delay("d", 1), func(r *schemas.Rule) { r.Match.Method = "" })},
		"at /action/delay_ms":             {delay("d", -1)},
		"at /action/body_mode":            {with(mock("m", "*", `1`), func(r *schemas.Rule) { r.Action.BodyMode = "" })},
		"at /action/request_headers/0":    {headers("h", "*", []schemas.HeaderChange{{Op: "remove", Name: "x", Value: "1"}}, nil)},
		"at /action/response_headers/0/v": {headers("h", "*", nil, []schemas.HeaderChange{set("x", "")})},
		"is larger than 262144 bytes":     {mock("m", "*", `"`+strings.Repeat("a", 256<<10)+`"`)},
	} {
		_, err := traffic.Compile(schemas.RuleSet{GlobalActive: true, Rules: rules}, "e")
		require.ErrorContains(t, err, want)
	}
	for _, r := range []schemas.Rule{late, mock("m", "*", `"`+strings.Repeat("a", 256<<10-2)+`"`)} {
		compile(t, schemas.RuleSet{Rules: []schemas.Rule{r}})
	}
}

// TestBypassed finds the rules that a tunnel to a.example:443 would bypass, whatever their paths and methods.
func TestBypassed(t *testing.T) {
	t.Parallel()
	facts := traffic.Facts{Principal: "t-1", TaskID: "task"}
	scoped := func(s schemas.RuleScope) schemas.Rule {
		return with(mock("r", "*", `1`), func(r *schemas.Rule) { r.Scope = &s })
	}
	for name, c := range map[string]struct {
		rule schemas.Rule
		want bool
	}{
		"mock of the host":   {mock("r", "https://a.example/*", `1`), true},
		"mock of a path":     {mock("r", "https://a.example/x", `1`), true},
		"mock of a method":   {with(mock("r", "https://a.example/*", `1`), func(r *schemas.Rule) { r.Match.Method = "POST" }), true},
		"every URL":          {mock("r", "*", `1`), true},
		"either scheme":      {mock("r", "*://*.example/*", `1`), true},
		"http on this port":  {mock("r", "http://a.example:443/*", `1`), true},
		"redirect":           {redirect("r", "https://a.example/*", "https://b.example/"), true},
		"own scope":          {scoped(schemas.RuleScope{Agent: "t-1", TaskID: "task"}), true},
		"another agent":      {scoped(schemas.RuleScope{Agent: "t-2"}), false},
		"scope of a kind":    {scoped(schemas.RuleScope{ActionKind: schemas.KindPassthrough}), false},
		"scope of an action": {scoped(schemas.RuleScope{RequestID: "a-1"}), false},
		"another host":       {mock("r", "https://b.example/*", `1`), false},
		"another port":       {mock("r", "http://a.example/*", `1`), false},
		"delay":              {delay("r", 5), false},
		"headers":            {headers("r", "*", []schemas.HeaderChange{set("X-A", "1")}, nil), false},
		"disabled":           {with(mock("r", "*", `1`), func(r *schemas.Rule) { r.Enabled = false }), false},
		"expired":            {with(mock("r", "*", `1`), func(r *schemas.Rule) { r.ExpiresAt = noon() }), false},
	} {
		require.Equal(t, c.want, setOf(t, c.rule).Bypassed("a.example", 443, facts, noon()) == "r", name)
	}
	require.Empty(t, (*traffic.Set)(nil).Bypassed("a.example", 443, facts, noon()))
	require.Empty(t, compile(t, schemas.RuleSet{Rules: []schemas.Rule{mock("r", "*", `1`)}}).Bypassed("a.example", 443, facts, noon()))
}
