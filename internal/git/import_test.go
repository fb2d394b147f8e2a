//go:build linux

package git

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

func TestImport(t *testing.T) {
	t.Parallel()
	from := open(t, Config{})
	s, commits := filled(t, from)
	r, err := from.repo("r1")
	require.NoError(t, err)
	must(t, string(r), "tag", "v1", commits[0])
	require.NoError(t, r.setHead(schemas.RefOf("work")))

	g := open(t, Config{})
	var told []schemas.RepoProgress
	branch, err := g.Import(t.Context(), "acme", "copy", s.URL+"/r1", "", func(p schemas.RepoProgress) { told = append(told, p) })
	require.NoError(t, err)
	require.Equal(t, "work", branch)
	require.NotEmpty(t, told)
	received := false
	for _, p := range told {
		received = received || p.Phase == schemas.RepoReceiving && p.Done == p.Total && p.Total > 0
	}
	require.True(t, received, "%v", told)
	require.Equal(t, commits[2], head(t, g, "copy", "work"))
	require.Equal(t, head(t, from, "r1", "main"), head(t, g, "copy", "main"))
	copied, err := g.repo("copy")
	require.NoError(t, err)
	require.Equal(t, commits[0], must(t, string(copied), "rev-parse", "refs/tags/v1"))
	clean(t, g, "copy")
	// Its own from then on, and not made twice.
	_, err = g.Branch(t.Context(), "copy", "mine", "work", "t1")
	require.NoError(t, err)
	s.Close()
	branch, err = g.Import(t.Context(), "acme", "copy", s.URL+"/r1", "", nil)
	require.NoError(t, err)
	require.Equal(t, "work", branch)
	own := serve(t, g)
	dir := clone(t, own, "copy", "-b", "mine")
	oid := commit(t, dir, "d", "d")
	must(t, dir, "push", "-q", "origin", "mine")
	require.Equal(t, oid, head(t, g, "copy", "mine"))
}

func TestImportOfADetachedHead(t *testing.T) {
	t.Parallel()
	from := open(t, Config{})
	s, commits := filled(t, from)
	r, err := from.repo("r1")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(string(r), "HEAD"), []byte(commits[2]+"\n"), 0o600))
	g := open(t, Config{})
	branch, err := g.Import(t.Context(), "acme", "copy", s.URL+"/r1", "", nil)
	require.NoError(t, err)
	require.Equal(t, "work", branch)
}

func TestImportThatFails(t *testing.T) {
	t.Parallel()
	from := open(t, Config{})
	s, _ := filled(t, from)
	g := open(t, Config{})
	for _, bad := range []string{
		"", "file:///etc", "/etc", "ext::id", "https://127.0.0.1/x", "http://localhost/x", "http://example.invalid/x",
		"http://user@127.0.0.1:1/x", "http://127.0.0.1:1/x y", "http://127.0.0.1:1/x?y", "http://[::1]:1/x", "-uid",
	} {
		_, err := g.Import(t.Context(), "acme", "x", bad, "", nil)
		require.ErrorContains(t, err, "own addresses", bad)
	}
	_, err := g.Import(t.Context(), "acme", "x", s.URL+"/nobody", "", nil)
	var failed *ExitError
	require.ErrorAs(t, err, &failed)
	require.NotEmpty(t, failed.Text)
	// Nothing in it.
	r, err := from.repo("r1")
	require.NoError(t, err)
	must(t, string(r), "update-ref", "-d", "refs/heads/work")
	must(t, string(r), "update-ref", "-d", "refs/heads/main")
	_, err = g.Import(t.Context(), "acme", "x", s.URL+"/r1", "", nil)
	require.ErrorIs(t, err, ErrNoRef)
	_, err = g.Head(t.Context(), "x", "main")
	require.ErrorIs(t, err, ErrNoRepo)
}

func TestImportOfBadObjects(t *testing.T) {
	t.Parallel()
	from := open(t, Config{})
	s, _ := filled(t, from)
	r, err := from.repo("r1")
	require.NoError(t, err)
	work := clone(t, s, "r1", "-b", "work")
	bad := badTree(t, work, ".git")
	// Past git's own checks, as a hostile upstream would have it.
	must(t, work, "-c", "receive.fsckObjects=false", "push", "-q", string(r), bad+":refs/heads/bad")
	g := open(t, Config{})
	_, err = g.Import(t.Context(), "acme", "x", s.URL+"/r1", "", nil)
	var failed *ExitError
	require.ErrorAs(t, err, &failed)
	_, err = g.Head(t.Context(), "x", "main")
	require.ErrorIs(t, err, ErrNoRepo)
}

func TestImportThatIsTooLarge(t *testing.T) {
	t.Parallel()
	from := open(t, Config{})
	begin(t, from, "work")
	s := serve(t, from)
	dir := clone(t, s, "r1", "-b", "work")
	noise := make([]byte, 3<<20)
	_, _ = noisy{}.Read(noise)
	commit(t, dir, "noise", string(noise))
	must(t, dir, "push", "-q", "origin", "work")
	g := open(t, Config{MaxRepo: 1 << 20})
	_, err := g.Import(t.Context(), "acme", "x", s.URL+"/r1", "", nil)
	require.ErrorIs(t, err, ErrFull)
}

func TestImportWithABranch(t *testing.T) {
	t.Parallel()
	from := open(t, Config{})
	s, commits := filled(t, from)
	g := open(t, Config{})
	branch, err := g.Import(t.Context(), "acme", "copy", s.URL+"/r1", "work", nil)
	require.NoError(t, err)
	require.Equal(t, "work", branch)
	require.Equal(t, commits[2], head(t, g, "copy", "work"))
	dir := clone(t, serve(t, g), "copy")
	require.Equal(t, "work", must(t, dir, "branch", "--show-current"), "HEAD is what was asked for")
	for _, bad := range []string{"gone", "a..b", "-x", "work/x"} {
		_, err = g.Import(t.Context(), "acme", "x", s.URL+"/r1", bad, nil)
		require.ErrorIs(t, err, ErrNoRef, bad)
		_, err = g.Head(t.Context(), "x", "main")
		require.ErrorIs(t, err, ErrNoRepo, "nothing is left of it")
	}
	branch, err = g.Import(t.Context(), "acme", "x", s.URL+"/r1", "work", nil)
	require.NoError(t, err)
	require.Equal(t, "work", branch, "and the next one can be right")
}
