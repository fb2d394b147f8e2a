//go:build linux

package git

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/gitkit"
)

func TestCreateTwice(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	one, err := g.Create(t.Context(), "019a:b.c", "trunk")
	require.NoError(t, err)
	two, err := g.Create(t.Context(), "019a:b.c", "other")
	require.NoError(t, err)
	require.Equal(t, one, two)
	require.Equal(t, one, head(t, g, "019a:b.c", "trunk"))
	_, err = g.Head(t.Context(), "019a:b.c", "other")
	require.ErrorIs(t, err, ErrNoRef)
	for _, bad := range []string{"", "a..b", "-x/.y", "x.lock", "a b", "x\nmerge"} {
		_, err := g.Create(t.Context(), "x", bad)
		require.Error(t, err, bad)
		_, err = g.Head(t.Context(), "019a:b.c", bad)
		require.ErrorIs(t, err, ErrNoRef, bad)
	}
	for _, bad := range []string{"", "a/b", "x\x00", strings.Repeat("a", 200)} {
		_, err := g.Create(t.Context(), bad, "main")
		require.Error(t, err, bad)
	}
	clean(t, g, "019a:b.c")
}

// TestCreateAtOnce: whoever makes a repository at once has made the same, and of those who want a branch one has it.
func TestCreateAtOnce(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	const n = 6
	heads, errs := make([]string, n), make([]error, n)
	atOnce := func(do func(i int) (string, error)) {
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() { heads[i], errs[i] = do(i) })
		}
		all.Wait()
	}
	atOnce(func(int) (string, error) { return g.Create(t.Context(), "r1", "main") })
	require.NoError(t, errors.Join(errs...))
	for _, head := range heads {
		require.Equal(t, heads[0], head)
	}
	clean(t, g, "r1")
	atOnce(func(i int) (string, error) { return g.Branch(t.Context(), "r1", "work", "main", string(rune('a'+i))) })
	won := slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, ErrRefExists) })
	require.Equal(t, []error{nil}, won)
}

func TestBranch(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	ctx := t.Context()
	commits := filled(t, g)
	main := head(t, g, "r1", "main")

	oid, err := g.Branch(ctx, "r1", "tasks/one", "work", "t1")
	require.NoError(t, err)
	require.Equal(t, commits[2], oid)
	// The branch and its base move on; the repeat says what was.
	pack, next := gitkit.GoodCommit("d", oid)
	for _, branch := range []string{"tasks/one", "work"} {
		_, err := g.ReceivePack(ctx, "r1", pushOf(branch, oid, next, bytes.NewReader(pack)))
		require.NoError(t, err)
	}
	again, err := g.Branch(ctx, "r1", "tasks/one", "main", "t1")
	require.NoError(t, err)
	require.Equal(t, oid, again)
	require.NotEqual(t, oid, head(t, g, "r1", "tasks/one"))

	for branch, task := range map[string]string{
		"tasks/one":     "t2", // another task's
		"main":          "t3", // nobody's
		"main/sub":      "t4", // below a branch
		"tasks/one/two": "t5",
		"tasks":         "t6", // above one
	} {
		_, err := g.Branch(ctx, "r1", branch, "main", task)
		require.ErrorIs(t, err, ErrRefExists, branch)
	}
	_, err = g.Branch(ctx, "r1", "new", "gone", "t7")
	require.ErrorIs(t, err, ErrNoRef)
	_, err = g.Branch(ctx, "nobody", "new", "main", "t7")
	require.ErrorIs(t, err, ErrNoRepo)
	for _, bad := range []string{"", "../x", "a b", "x.lock", "@{-1}", "HEAD"} {
		_, err = g.Branch(ctx, "r1", bad, "main", "t8")
		require.Error(t, err, bad)
	}
	// What was refused has taken no name.
	oid, err = g.Branch(ctx, "r1", "new", "main", "t9")
	require.NoError(t, err)
	require.Equal(t, main, oid)

	// The same of refs that have been packed.
	r, err := g.repo("r1")
	require.NoError(t, err)
	require.NoError(t, g.repack(ctx, r))
	_, err = g.Branch(ctx, "r1", "tasks", "main", "t10")
	require.ErrorIs(t, err, ErrRefExists)
	_, err = g.Branch(ctx, "r1", "new/er", "main", "t10")
	require.ErrorIs(t, err, ErrRefExists)
	clean(t, g, "r1")
}

func TestBranchAfterACrash(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	first := begin(t, g)
	r, err := g.repo("r1")
	require.NoError(t, err)
	// The claim was written, and then nothing.
	gitkit.Git(t, string(r), "update-ref", claimRef("next", "t1"), first)
	require.NoError(t, os.WriteFile(filepath.Join(string(r), "refs/heads/next.lock"), nil, 0o600))
	_, err = g.Branch(t.Context(), "r1", "next", "main", "t2")
	require.ErrorIs(t, err, ErrRefExists)
	oid, err := g.Branch(t.Context(), "r1", "next", "main", "t1")
	require.NoError(t, err)
	require.Equal(t, first, oid)
	require.Equal(t, oid, head(t, g, "r1", "next"))

	long := strings.Repeat("a:", 64) // a task's id
	oid, err = g.Branch(t.Context(), "r1", "other", "main", long)
	require.NoError(t, err)
	again, err := g.Branch(t.Context(), "r1", "other", "main", long)
	require.NoError(t, err)
	require.Equal(t, oid, again)
	_, err = g.Branch(t.Context(), "r1", "other", "main", strings.Repeat("a.", 64))
	require.ErrorIs(t, err, ErrRefExists)
}
