package grant_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/ingress/grant"
	"weir/schemas"
)

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

func TestCoversModels(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		patterns, of []string
		covers       bool
	}{
		{nil, nil, true},
		{nil, []string{"a"}, true},
		{[]string{"a"}, nil, false},
		{[]string{"*"}, []string{"a", "b/*"}, true},
		{[]string{"a/*"}, []string{"a/1", "a/b/*"}, true},
		{[]string{"a/*"}, []string{"a/1", "b"}, false},
		{[]string{"a/1"}, []string{"a/*"}, false},
		{[]string{"a/*"}, []string{"*"}, false},
	} {
		require.Equal(t, tc.covers, grant.CoversModels(tc.patterns, tc.of), "%v", tc)
	}
}

func TestACompletionNamesNoEntry(t *testing.T) {
	t.Parallel()
	require.NoError(t, grant.Payload(schemas.KindChat, json.RawMessage(`{"model":"m"}`), []string{"a"}))
}
