package task_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/task"
)

func TestCovers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		entries, of []string
		want        bool
	}{
		{nil, nil, true},
		{nil, []string{"a"}, true},
		{[]string{"a"}, nil, false}, // it may use all
		{[]string{"a"}, []string{"a"}, true},
		{[]string{"a", "b"}, []string{"b"}, true},
		{[]string{"a"}, []string{"a", "b"}, false},
	} {
		require.Equal(t, tc.want, task.Bounds{Entries: tc.entries}.Covers(task.Bounds{Entries: tc.of}), "%v of %v", tc.entries, tc.of)
	}
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
		require.Equal(t, tc.covers, task.Bounds{Models: tc.patterns}.Covers(task.Bounds{Models: tc.of}), "%v", tc)
	}
}
