package task_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/task"
)

func TestCovers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		has, of []string
		entries bool // whether the one covers the other as entries, and as patterns of models
		models  bool
	}{
		{nil, nil, true, true},
		{nil, []string{"a"}, true, true},
		{[]string{"a"}, nil, false, false}, // it may use all
		{[]string{"a"}, []string{"a"}, true, true},
		{[]string{"a", "b"}, []string{"b"}, true, true},
		{[]string{"a"}, []string{"a", "b"}, false, false},
		{[]string{"*"}, []string{"a", "b/*"}, false, true},
		{[]string{"a/*"}, []string{"a/1", "a/b/*"}, false, true},
		{[]string{"a/*"}, []string{"a/1", "b"}, false, false},
		{[]string{"a/1"}, []string{"a/*"}, false, false},
		{[]string{"a/*"}, []string{"*"}, false, false},
	} {
		require.Equal(t, tc.entries, task.Bounds{Entries: tc.has}.Covers(task.Bounds{Entries: tc.of}), "%v of %v", tc.has, tc.of)
		require.Equal(t, tc.models, task.Bounds{Models: tc.has}.Covers(task.Bounds{Models: tc.of}), "%v of %v", tc.has, tc.of)
	}
}
