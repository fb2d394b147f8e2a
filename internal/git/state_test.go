//go:build linux

package git

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// unsyncable makes a repository one of which a part cannot be brought to the disk, although git can read it.
func unsyncable(t *testing.T, r repository) {
	t.Helper()
	packs := filepath.Join(string(r), "objects", "pack")
	aside := filepath.Join(t.TempDir(), "pack")
	require.NoError(t, os.Rename(packs, aside))
	files, err := filepath.Glob(filepath.Join(aside, "*.pack"))
	require.NoError(t, err)
	for _, f := range files {
		in, err := os.Open(f)
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), "git", "unpack-objects", "-q")
		cmd.Dir, cmd.Stdin = string(r), in
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.NoError(t, in.Close())
	}
	require.NoError(t, os.RemoveAll(packs))
	require.NoError(t, os.Symlink("pack", packs)) // a loop
}

// What is there already may not be on the disk yet: whoever made it may have died before that.
func TestNothingIsReportedThatIsNotOnTheDisk(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	first := begin(t, g)
	r, err := g.repo("r1")
	require.NoError(t, err)
	oid, err := g.Branch(t.Context(), "r1", "work", "main", "task-work")
	require.NoError(t, err)
	require.Equal(t, first, oid)
	unsyncable(t, r)
	require.Equal(t, first, head(t, g, "r1", "work"), "it can be read")
	_, err = g.Branch(t.Context(), "r1", "work", "main", "task-work")
	require.ErrorContains(t, err, "objects/pack")
	_, err = g.PushState(t.Context(), "r1", "work", first)
	require.ErrorContains(t, err, "objects/pack")
}

// straggler starts a process that has the lock of a repository's writing.
func straggler(t *testing.T, w writing) (end func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "cat")
	cmd.ExtraFiles = []*os.File{w.lock}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return func() {
		require.NoError(t, in.Close())
		require.NoError(t, cmd.Wait())
	}
}

// A process that could not be ended keeps what says that it is there, and what it works with.
func TestStragglersKeepTheirLock(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	first := begin(t, g)
	r, err := g.repo("r1")
	require.NoError(t, err)
	ref := schemas.RefOf("work")
	w, err := r.write(t.Context(), ref)
	require.NoError(t, err)
	end := straggler(t, w)
	quarantine := filepath.Join(string(r), "objects", "tmp_objdir-incoming-x")
	require.NoError(t, os.Mkdir(quarantine, 0o700))
	w.abandon(t.Context())
	require.DirExists(t, quarantine, "it may still be written to")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errGone)
	defer cancel()
	_, err = g.PushState(ctx, "r1", "work", first)
	require.ErrorIs(t, err, errGone)
	fate := make(chan error, 1)
	go func() {
		_, err := g.PushState(t.Context(), "r1", "work", first)
		fate <- err
	}()
	end()
	require.NoError(t, <-fate)
	w, err = r.write(t.Context(), ref)
	require.NoError(t, err)
	w.abandon(t.Context())
	require.NoDirExists(t, quarantine)
}

func TestRemove(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	begin(t, g)
	r, err := g.repo("r1")
	require.NoError(t, err)
	w, err := r.write(t.Context(), "")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errGone)
	defer cancel()
	require.ErrorIs(t, g.Remove(ctx, "r1"), errGone, "somebody writes to it")
	w.done()
	require.NoError(t, g.Remove(t.Context(), "r1"))
	require.NoError(t, g.Remove(t.Context(), "r1"), "once more")
	require.NoError(t, g.Remove(t.Context(), "../x"), "what cannot be there")
	_, err = g.Head(t.Context(), "r1", "work")
	require.ErrorIs(t, err, ErrNoRepo)
	first, err := g.Create(t.Context(), "r1", "main")
	require.NoError(t, err)
	_, err = g.Branch(t.Context(), "r1", "work", "main", "t2")
	require.NoError(t, err, "no claim is left either")
	require.Equal(t, first, head(t, g, "r1", "work"))
}
