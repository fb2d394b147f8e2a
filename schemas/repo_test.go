package schemas_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

func TestValidRepoName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "0", "web", "web.app", "a-b_c.d", "git", "x.git.y", strings.Repeat("a", 100)} {
		require.True(t, schemas.ValidRepoName(name), name)
	}
	for _, name := range []string{
		"", ".", "..", "a..b", ".a", "a.", "-a", "_a", "A", "a/b", "a\\b", "a b", "a.git", "a.lock", "a\x00", "a%2e", "é", strings.Repeat("a", 101),
	} {
		require.False(t, schemas.ValidRepoName(name), name)
	}
}

func TestValidBranch(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "main", "A/b.c_d-e", "release/1.x", "0199f0c2-a1d3-7c55-9b0e-2f4a6c8e0d13", "HEAD/a", "a-", strings.Repeat("b", schemas.MaxBranch)} {
		require.True(t, schemas.ValidBranch(name), name)
	}
	for _, name := range []string{
		"", "HEAD", "/a", "a/", "a//b", "a..b", ".a", "a/.b", "a.", "a./b", "-a", "a/-b", "a.lock", "a.lock/b", "a b", "a~b", "a^b", "a:b", "a?b", "a*b", "a[b",
		"a\\b", "a@{b", "@", "a\nb", "é", strings.Repeat("b", schemas.MaxBranch+1),
	} {
		require.False(t, schemas.ValidBranch(name), name)
	}
	require.Equal(t, "refs/heads/a/b", schemas.RefOf("a/b"))
}
