package models_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/models"
)

func TestNames(t *testing.T) {
	t.Parallel()
	n := models.NewNames(slices.Values([]string{"a/*", "solo", "a/b/*", "a/b/c"}))
	for asked, want := range map[string]string{
		"solo": "solo", "a/b/c": "a/b/c", "a/b/d": "a/b/*", "a/x": "a/*", "a/b": "a/*", "a/": "", "a": "", "other": "", "": "", "a/*": "a/*",
	} {
		got, ok := n.Match(asked)
		require.Equal(t, want, got, asked)
		require.Equal(t, want != "", ok, asked)
	}
	all := models.NewNames(slices.Values([]string{"*", "a/*"}))
	got, ok := all.Match("solo")
	require.Equal(t, []any{"*", true}, []any{got, ok})
	_, ok = models.Names{}.Match("solo")
	require.False(t, ok)
}
