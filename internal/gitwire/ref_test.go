package gitwire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/gitwire"
	"weir/internal/weirtest/gitkit"
)

// Every pair of these parts is asked of the real git as well.
func TestValidRefAgreesWithGit(t *testing.T) {
	t.Parallel()
	names := []string{
		"", "/", "a", "@", "HEAD", "refs", "refs/heads", "refs/heads/main", "refs/heads/a/b/c", "refs//heads", "/refs/heads", "refs/heads/",
		"refs/heads/@", "refs/@/a", "refs/heads/@{", "refs/heads/a@{1}", "refs/heads/a@b", "refs/heads/-x", "refs/heads/\u00e9", "refs/heads/\xff",
		"refs/heads/../../config", "refs/heads/a.lock/b", "refs/heads/.lock", "refs/heads/lock", "refs/heads/a.lock.", "a./b", "a/b.", "a/.b", ".a/b", "a/..", "a/...",
	}
	for c := range 256 {
		if c != 0 { // no argument holds that
			names = append(names, "a/b"+string([]byte{byte(c)})+"c")
		}
	}
	dir := t.TempDir()
	valid := 0
	for _, name := range names {
		r := gitkit.Run(t.Context(), dir, gitkit.Env(), nil, "check-ref-format", name)
		require.Contains(t, []int{0, 1}, r.Code, r.Err)
		require.Equal(t, r.Code == 0, gitwire.ValidRef(name), "%q", name)
		if r.Code == 0 {
			valid++
		}
	}
	require.Greater(t, valid, 100)
	require.False(t, gitwire.ValidRef("refs/heads/a\x00b"))
}

func FuzzValidRef(f *testing.F) {
	for _, s := range []string{main, "refs/heads/..", "a/b.lock", "@{", "a//b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !gitwire.ValidRef(s) {
			return
		}
		require.False(t, strings.ContainsAny(s, " \n\x00\\:*?[~^") || strings.Contains(s, "..") || strings.Contains(s, "//"))
		require.Contains(t, s, "/")
		require.True(t, gitwire.ValidRef("refs/"+s))
	})
}
