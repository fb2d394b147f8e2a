//go:build linux

package git

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/gitkit"
)

// named is a default branch that is known.
func named(branch string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return branch, nil }
}

// TestImportThatFails leaves nothing, and says whose fault it was.
func TestImportThatFails(t *testing.T) {
	t.Parallel()
	from := open(t, Config{})
	commits, s := filled(t, from), serve(t, from, View{All: true})
	r, err := from.repo("r1")
	require.NoError(t, err)
	g := open(t, Config{})
	fails := func(g *Git, url, branch string) error {
		_, err := g.Import(t.Context(), "acme", "x", url, named(branch), nil)
		require.Error(t, err, "%s %s", url, branch)
		_, none := g.Head(t.Context(), "x", "main")
		require.ErrorIs(t, none, ErrNoRepo)
		return err
	}
	for _, bad := range []string{
		"", "file:///etc", "/etc", "ext::id", "https://127.0.0.1/x", "http://localhost/x", "http://example.invalid/x",
		"http://user@127.0.0.1:1/x", "http://127.0.0.1:1/x y", "http://127.0.0.1:1/x?y", "http://[::1]:1/x", "-uid",
	} {
		require.ErrorContains(t, fails(g, bad, ""), "own addresses", bad)
	}
	var failed *ExitError
	require.ErrorAs(t, fails(g, s+"/nobody", "main"), &failed)
	require.NotEmpty(t, failed.Text)
	for _, bad := range []string{"", "gone", "a..b", "-x", "work/x"} {
		require.ErrorIs(t, fails(g, s+"/r1", bad), ErrNoRef, bad)
	}
	branch, err := g.Import(t.Context(), "acme", "copy", s+"/r1", named("work"), nil)
	require.NoError(t, err)
	require.Equal(t, "work", branch, "HEAD is what was asked for")
	require.Equal(t, commits[2], head(t, g, "copy", "work"))
	require.Equal(t, "work", gitkit.Git(t, clone(t, serve(t, g, View{All: true}), "copy"), "branch", "--show-current"))
	// Past git's own checks, as a hostile upstream would have it.
	pack, evil := gitkit.BadTree(".git", commits[2])
	gitkit.GitIn(t, string(r), pack, "unpack-objects", "-q")
	gitkit.Git(t, string(r), "update-ref", "refs/heads/bad", evil)
	require.ErrorAs(t, fails(g, s+"/r1", "main"), &failed)
	gitkit.Git(t, string(r), "update-ref", "-d", "refs/heads/bad")
	// Too large, and then nothing in it.
	push(t, from, noise(3<<20))
	require.ErrorIs(t, fails(open(t, Config{MaxRepo: 1 << 20}), s+"/r1", "main"), ErrFull)
	gitkit.Git(t, string(r), "update-ref", "-d", "refs/heads/work")
	gitkit.Git(t, string(r), "update-ref", "-d", "refs/heads/main")
	require.ErrorIs(t, fails(g, s+"/r1", "main"), ErrNoRef)
}
