//go:build linux

package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/table"
)

func TestVersions(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]version{
		"git version 2.39.5":               2_039,
		"git version 2.31.0-rc1":           2_031,
		"git version 2.50.1 (Apple Git-1)": 2_050,
		"git version 3.0":                  3_000,
		"svn, version 1.14":                0,
	} {
		v, err := parseVersion(said)
		if want == 0 {
			require.Error(t, err, said)
			continue
		}
		require.NoError(t, err, said)
		require.Equal(t, want, v, said)
	}
	require.True(t, version(3_000).atLeast(31))
	require.False(t, version(2_030).atLeast(31))
	require.True(t, version(2_031).atLeast(31))
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), Config{})
	require.Error(t, err)
	_, err = Open(t.Context(), Config{Dir: t.TempDir(), Program: "no-such-git"})
	require.ErrorContains(t, err, "not installed")
	for said, word := range map[string]string{"git version 2.30.9": "2.31", "hello": "not git"} {
		fake := filepath.Join(t.TempDir(), "fake")
		require.NoError(t, os.WriteFile(fake, []byte("#!/bin/sh\necho "+said+"\n"), 0o700))
		_, err = Open(t.Context(), Config{Dir: t.TempDir(), Program: fake})
		require.ErrorContains(t, err, word)
	}
	g := open(t, Config{})
	_, err = Open(t.Context(), Config{Dir: g.cfg.Dir})
	require.ErrorContains(t, err, "another process")
}

func TestOpenTakesAwayWhatWasInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "tmp", "make-1", "r", "objects"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "pushes"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pushes", "p1"), nil, 0o600))
	open(t, Config{Dir: dir}).Close() // its cleanup looks
}

func TestClosed(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	begin(t, g)
	g.Close()
	g.Close()
	_, err := g.Head(t.Context(), "r1", "work")
	require.ErrorIs(t, err, ErrClosed)
}

// victimEnv makes the test's program a Weir that is killed in the middle of a push.
const victimEnv = "WEIR_GIT_TEST_VICTIM"

// victim takes a push on its standard input: the object ids, a length, and the bytes of a
// pack up to there, which is where it says so.
func victim(dir string) {
	g, err := Open(context.Background(), Config{Dir: dir})
	if err != nil {
		panic(err)
	}
	in := bufio.NewReader(os.Stdin)
	var from, to string
	if _, err := fmt.Fscanln(in, &from, &to); err != nil {
		panic(err)
	}
	_, err = g.ReceivePack(context.Background(), "r1", pushOf("work", from, to, in))
	fmt.Println("done", err)
}

func signalAll(t *testing.T, procs []string, sig syscall.Signal) {
	t.Helper()
	for _, p := range procs {
		pid, err := strconv.Atoi(filepath.Base(p))
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(pid, sig))
	}
}

// quietly waits until nothing writes to r1.
func quietly(t *testing.T, g *Git) {
	t.Helper()
	r, err := g.repo("r1")
	require.NoError(t, err)
	require.NoError(t, r.quiet(t.Context()))
}

func TestProcessesOfAPushHoldItsLock(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	w, done := halfPush(t.Context(), t, g)
	var procs []string
	poll.Until(t, func() bool { procs = childrenOf(g.cfg.Dir); return len(procs) > 1 })
	r, err := g.repo("r1")
	require.NoError(t, err)
	for _, p := range procs {
		var held []string
		fds, err := filepath.Glob(p + "/fd/*")
		require.NoError(t, err)
		for _, fd := range fds {
			if to, err := os.Readlink(fd); err == nil {
				held = append(held, to)
			}
		}
		require.Contains(t, held, r.own("lock"))
	}
	_ = w.CloseWithError(errGone)
	require.ErrorIs(t, <-done, errGone)
}

func TestPushOfAProgramThatIsKilled(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	first := begin(t, g)
	pack, oid := gitkit.GoodCommit(noise(1<<20), first)
	for name, row := range map[string]struct {
		bytes  int
		either bool
	}{
		"half of the pack": {len(pack) / 2, false},
		"the whole pack":   {len(pack), true},
	} {
		g.Close()
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), victimEnv+"="+g.cfg.Dir), os.Stderr
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = fmt.Fprintln(in, first, oid)
		require.NoError(t, err)
		_, err = in.Write(pack[:row.bytes])
		require.NoError(t, err)
		poll.Until(t, func() bool { return len(childrenOf(g.cfg.Dir)) > 0 || row.either }, name)
		require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
		_ = cmd.Wait()
		_ = in.Close()

		again, err := Open(t.Context(), Config{Dir: g.cfg.Dir})
		require.NoError(t, err, name)
		g = again
		quietly(t, g)
		poll.Until(t, func() bool { return len(childrenOf(g.cfg.Dir)) == 0 }, name)
		now := head(t, g, "r1", "work")
		if !row.either || now != oid {
			require.Equal(t, first, now, name)
		}
		// The branch can still be pushed to.
		rep, err := g.ReceivePack(t.Context(), "r1", pushOf("work", now, oid, bytes.NewReader(pack)))
		require.NoError(t, err, name)
		require.Equal(t, "ok", rep.Unpack, name)
		require.Equal(t, oid, head(t, g, "r1", "work"), name)
		clean(t, g, "r1")
		r, err := g.repo("r1")
		require.NoError(t, err)
		gitkit.Git(t, string(r), "update-ref", "refs/heads/work", first)
	}
	g.Close()
}

func TestPacksAreJoined(t *testing.T) {
	t.Parallel()
	g := open(t, Config{packs: 5})
	begin(t, g)
	r, err := g.repo("r1")
	require.NoError(t, err)
	last := ""
	for i := range 7 {
		last = push(t, g, strings.Repeat(strconv.Itoa(i), 100))
	}
	poll.Until(t, func() bool { return r.packs() < 5 })
	require.Equal(t, last, head(t, g, "r1", "work"))
	g.Close()
	require.FileExists(t, filepath.Join(string(r), "packed-refs"))
	clean(t, g, "r1")
}

// halfPush starts a push and returns when git has half of its pack.
func halfPush(ctx context.Context, t *testing.T, g *Git) (w *io.PipeWriter, done chan error) {
	t.Helper()
	first := begin(t, g)
	pack, oid := gitkit.GoodCommit(noise(1<<20), first)
	r, w := io.Pipe()
	done = make(chan error, 1)
	go func() {
		_, err := g.ReceivePack(ctx, "r1", pushOf("work", first, oid, r))
		done <- err
	}()
	_, err := w.Write(pack[:len(pack)/2])
	require.NoError(t, err)
	return w, done
}

func TestPushThatEndsHalfway(t *testing.T) {
	t.Parallel()
	table.Run(t, map[string]func(w *io.PipeWriter, cancel context.CancelCauseFunc, g *Git) error{
		"the client is gone": func(w *io.PipeWriter, _ context.CancelCauseFunc, _ *Git) error {
			_ = w.CloseWithError(errGone)
			return errGone
		},
		"it is called off": func(w *io.PipeWriter, cancel context.CancelCauseFunc, _ *Git) error {
			cancel(errGone)
			_ = w.CloseWithError(errGone)
			return errGone
		},
		"the program ends": func(w *io.PipeWriter, _ context.CancelCauseFunc, g *Git) error {
			go g.Close()
			_ = w.CloseWithError(ErrClosed)
			return ErrClosed
		},
	}, func(t *testing.T, end func(w *io.PipeWriter, cancel context.CancelCauseFunc, g *Git) error) {
		g := open(t, Config{})
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		w, done := halfPush(ctx, t, g)
		want := end(w, cancel, g)
		require.ErrorIs(t, <-done, want)
		require.Empty(t, childrenOf(g.cfg.Dir))
		clean(t, g, "r1")
		g.Close()
		again, err := Open(t.Context(), g.cfg)
		require.NoError(t, err)
		defer again.Close()
		quietly(t, again)
		require.Equal(t, head(t, again, "r1", "main"), head(t, again, "r1", "work"))
	})
}

func TestStoppedChildrenEndToo(t *testing.T) {
	t.Parallel()
	g := open(t, Config{grace: 20 * time.Millisecond})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	w, done := halfPush(ctx, t, g)
	var procs []string
	poll.Until(t, func() bool { procs = childrenOf(g.cfg.Dir); return len(procs) > 1 })
	signalAll(t, procs, syscall.SIGSTOP)
	cancel(errGone)
	_ = w.CloseWithError(errGone)
	require.ErrorIs(t, <-done, errGone)
	require.Empty(t, childrenOf(g.cfg.Dir))
	clean(t, g, "r1")
}

func TestPushThatIsCutShort(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	w, done := halfPush(t.Context(), t, g)
	require.NoError(t, w.Close()) // an end that git takes for one
	require.NoError(t, <-done)
	require.Equal(t, head(t, g, "r1", "main"), head(t, g, "r1", "work"))
	clean(t, g, "r1")
}

// firstEnv makes the test's program one that is the first of its container: whose parent is gone becomes its child.
const firstEnv = "WEIR_GIT_TEST_FIRST"

// first runs a push that is killed hard in the middle, and says whether it has children then, dead ones too.
func first(dir string) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	g, err := Open(context.Background(), Config{Dir: dir, grace: 1})
	if err != nil {
		panic(err)
	}
	var from, to string
	if _, err := fmt.Fscanln(os.Stdin, &from, &to); err != nil {
		panic(err)
	}
	_, err = g.ReceivePack(context.Background(), "r1", pushOf("work", from, to, io.MultiReader(os.Stdin, goneReader{})))
	g.Close()
	_, none := unix.Wait4(-1, nil, unix.WNOHANG, nil)
	fmt.Print(errors.Is(err, errGone), errors.Is(none, unix.ECHILD))
}

type goneReader struct{}

func (goneReader) Read([]byte) (int, error) { return 0, errGone }

func TestNothingIsLeftForTheFirstProcess(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	from := begin(t, g)
	pack, oid := gitkit.GoodCommit(noise(1<<20), from)
	g.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), firstEnv+"="+g.cfg.Dir)
	cmd.Stdin = io.MultiReader(bytes.NewReader([]byte(from+" "+oid+"\n")), bytes.NewReader(pack[:len(pack)/2]))
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, "true true", string(out))
}
