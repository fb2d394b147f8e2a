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
