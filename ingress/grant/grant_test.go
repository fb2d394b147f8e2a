package grant_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/ingress/grant"
	"weir/schemas"
)

func plan(targets ...string) schemas.PlanRequest {
	var p schemas.PlanRequest
	for _, t := range targets {
		p.Plan.Decisions = append(p.Plan.Decisions, schemas.PlanDecision{EffectRef: "e", TargetState: json.RawMessage(t)})
	}
	return p
}

func TestPlan(t *testing.T) {
	t.Parallel()
	for target, refused := range map[string]bool{
		`{"allowlist_key":"a"}`:                            false,
		`{"allowlist_key":"c"}`:                            true,
		`{"allowlist_key":"a","Allowlist_Key":"c"}`:        false,
		`{"allowlist_key":"c","Allowlist_Key":"a"}`:        true,
		`{"allowlist_key":""}`:                             false,
		`{"allowlist_key":7}`:                              false,
		`{"params":{"allowlist_key":"c"}}`:                 false,
		`{"allowlist_key":"\u0063"}`:                       true,
		`{"url":"http://h/","body":{"allowlist_key":"c"}}`: false,
	} {
		err := grant.Plan(plan(`{"allowlist_key":"b"}`, target), []string{"a", "b"})
		require.Equal(t, refused, err != nil, target)
		require.NoError(t, grant.Plan(plan(target), nil), "no entries are all")
	}
}

func TestBoth(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b, want []string
		ok         bool
	}{
		{nil, nil, nil, true},
		{[]string{"a"}, nil, []string{"a"}, true},
		{nil, []string{"b"}, []string{"b"}, true},
		{[]string{"a", "b"}, []string{"c", "b"}, []string{"b"}, true},
		{[]string{"a"}, []string{"b"}, nil, false},
	} {
		got, ok := grant.Both(tc.a, tc.b)
		require.Equal(t, tc.want, got)
		require.Equal(t, tc.ok, ok)
	}
}

func TestTask(t *testing.T) {
	t.Parallel()
	for taskType, granted := range map[string]bool{
		schemas.TaskHTTPExecute: true, schemas.TaskHTTPPlan: true, schemas.TaskEcho: true,
		"LIT_RETRIEVAL": true, "POLICY_REVIEW": false, "agent:LIT_RETRIEVAL": false, "orders": false, "": false,
	} {
		err := grant.Task(taskType, []string{"orders", "agent:LIT_RETRIEVAL"})
		require.Equal(t, granted, err == nil, taskType)
		require.NoError(t, grant.Task(taskType, nil), "no entries are all")
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	entries := []string{"a", "agent:T"}
	p := plan(`{"allowlist_key":"b"}`)
	for name, tc := range map[string]struct {
		run     schemas.Run
		refused bool
	}{
		"agent":        {schemas.Run{RunOrder: schemas.RunOrder{TaskType: "T", Inputs: json.RawMessage(`{"allowlist_key":"b"}`)}}, false},
		"other agent":  {schemas.Run{RunOrder: schemas.RunOrder{TaskType: "U"}}, true},
		"echo":         {schemas.Run{RunOrder: schemas.RunOrder{TaskType: schemas.TaskEcho}}, false},
		"call":         {schemas.Run{RunOrder: schemas.RunOrder{TaskType: schemas.TaskHTTPExecute}, Call: &schemas.HTTPCall{AllowlistKey: "a"}}, false},
		"other call":   {schemas.Run{RunOrder: schemas.RunOrder{TaskType: schemas.TaskHTTPExecute}, Call: &schemas.HTTPCall{AllowlistKey: "b"}}, true},
		"call of none": {schemas.Run{RunOrder: schemas.RunOrder{TaskType: schemas.TaskHTTPExecute}, Call: &schemas.HTTPCall{}}, false},
		"plan":         {schemas.Run{RunOrder: schemas.RunOrder{TaskType: schemas.TaskHTTPPlan}, Plan: &p}, true},
	} {
		require.Equal(t, tc.refused, grant.Run(tc.run, entries) != nil, name)
		require.NoError(t, grant.Run(tc.run, nil), name)
	}
}

func TestBothModels(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ a, b, both []string }{
		{nil, nil, nil},
		{nil, []string{"a"}, []string{"a"}},
		{[]string{"a"}, nil, []string{"a"}},
		{[]string{"a", "b"}, []string{"b", "c"}, []string{"b"}},
		{[]string{"a/*"}, []string{"a/1", "b/1"}, []string{"a/1"}},
		{[]string{"a/1", "b/1"}, []string{"a/*"}, []string{"a/1"}},
		{[]string{"*"}, []string{"a/*"}, []string{"a/*"}},
		{[]string{"a/*"}, []string{"a/*"}, []string{"a/*"}},
		{[]string{"a/*"}, []string{"a/b/*", "a/c"}, []string{"a/b/*", "a/c"}},
	} {
		both, ok := grant.BothModels(tc.a, tc.b)
		require.True(t, ok, "%v", tc)
		require.Equal(t, tc.both, both, "%v", tc)
	}
	_, ok := grant.BothModels([]string{"a"}, []string{"b/*"})
	require.False(t, ok, "no patterns would be all of them")
}
