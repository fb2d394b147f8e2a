//go:build linux

package git

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDiff(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	commits := filled(t, g)
	diff, cut, err := g.Diff(t.Context(), "r1", "acme", commits[0], commits[2], 1<<20)
	require.NoError(t, err)
	require.False(t, cut)
	require.Contains(t, string(diff), "\n-"+strings.Repeat("a", 5000)+"\n+"+strings.Repeat("c", 5000)+"\n")
	diff, cut, err = g.Diff(t.Context(), "r1", "acme", commits[0], commits[2], 200)
	require.NoError(t, err)
	require.True(t, cut)
	require.Regexp(t, `^diff --git a/file b/file\n(.+\n)*$`, string(diff), "whole lines")
	require.LessOrEqual(t, len(diff), 200)
	for _, absent := range []string{strings.Repeat("1", 40), "--output=/tmp/x", "refs/heads/none"} {
		_, _, err = g.Diff(t.Context(), "r1", "acme", absent, commits[2], 200)
		require.ErrorIs(t, err, ErrNoRef, absent)
	}
	_, _, err = g.Diff(t.Context(), "r2", "acme", commits[0], commits[2], 200)
	require.ErrorIs(t, err, ErrNoRepo)
}
