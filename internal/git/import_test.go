//go:build linux

package git

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/gitkit"
	"weir/schemas"
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

func TestProgress(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]schemas.RepoProgress{
		"remote: Counting objects:   7% (3/40)":                            {Phase: schemas.RepoCounting, Done: 3, Total: 40},
		"remote: Counting objects: 100% (40/40), done.":                    {Phase: schemas.RepoCounting, Done: 40, Total: 40},
		"remote: Compressing objects:  50% (1/2)":                          {Phase: schemas.RepoCompressing, Done: 1, Total: 2},
		"Receiving objects:  46% (4600/10000), 1.20 MiB | 2.10 MiB/s":      {Phase: schemas.RepoReceiving, Done: 4600, Total: 10000},
		"Unpacking objects: 100% (9/9), 612 bytes | 612.00 KiB/s, done.":   {Phase: schemas.RepoReceiving, Done: 9, Total: 9},
		"Resolving deltas:   0% (0/77)":                                    {Phase: schemas.RepoResolving, Total: 77},
		"Resolving deltas: 100% (0/0), done.":                              {Phase: schemas.RepoResolving},
		"Receiving objects: 100% (9999999999/9999999999), 1 GiB | 1 MiB/s": {Phase: schemas.RepoReceiving, Done: 9999999999, Total: 9999999999},
	} {
		got, ok := progressOf(line)
		require.True(t, ok, line)
		require.Equal(t, want, got, line)
	}
	for _, line := range []string{
		"", "done", "From http://127.0.0.1:1/x", "remote: Enumerating objects: 5, done.",
		" * [new branch]      main       -> main", "remote: Receiving objects:  46% (4600/10000)",
		"remote: remote: Counting objects: 100% (1/1)", "Counting objects: 100% (1/1)",
		"Receiving objects:  46% (46/10)", "Receiving objects:  46% (-1/10)", "Receiving objects: 4% (1/99999999999)",
		"x Receiving objects:  46% (4/10)", "fatal: Receiving objects: 100% (1/1)",
	} {
		_, ok := progressOf(line)
		require.False(t, ok, line)
	}
}

// TestLastLine: what git says is heard a line at a time, whatever ends it, and however long.
func TestLastLine(t *testing.T) {
	t.Parallel()
	for said, want := range map[string][]string{
		"":                                 {},
		"\n \r\n":                          {},
		"one":                              {"one"},
		"a: 1%\ra: 2%\ra: 2%, done.\nb \n": {"a: 1%", "a: 2%", "a: 2%, done.", "b"},
		"fatal: \xff\n\n":                  {"fatal:"},
		strings.Repeat("x", mostLine+1):    {strings.Repeat("x", mostLine), "x"},
		strings.Repeat("y", mostLine) + "\n" + strings.Repeat("z", mostLine-1) + "\r": {strings.Repeat("y", mostLine), strings.Repeat("z", mostLine-1)},
	} {
		lines := []string{}
		last := lastLine(strings.NewReader(said), func(line string) { lines = append(lines, line) })
		require.Equal(t, want, lines)
		require.Equal(t, append([]string{""}, want...)[len(want)], last)
		require.Equal(t, last, lastLine(strings.NewReader(said), nil))
	}
}
