//go:build linux

package git

import (
	"context"
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/poll"
)

// halfPush starts a push and returns when git has half of its pack.
func halfPush(ctx context.Context, t *testing.T, g *Git) (w *io.PipeWriter, done chan error) {
	t.Helper()
	first := begin(t, g, "work")
	s := serve(t, g)
	dir := clone(t, s, "r1", "-b", "work")
	noise := make([]byte, 4<<20)
	_, _ = noisy{}.Read(noise)
	oid := commit(t, dir, "noise", string(noise))
	pack := packOf(t, dir, oid+" ^"+first)
	r, w := io.Pipe()
	done = make(chan error, 1)
	go func() {
		_, err := g.ReceivePack(ctx, "r1", pushOf("p1", "work", first, oid, r))
		done <- err
	}()
	half := len(pack) / 2
	_, err := w.Write(pack[:half])
	require.NoError(t, err)
	return w, done
}

func TestPushThatEndsHalfway(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *io.PipeWriter, cancel context.CancelCauseFunc, g *Git) error{
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
			go func() {
				g.Close()
			}()
			_ = w.CloseWithError(ErrClosed)
			return ErrClosed
		},
	} {
		for _, hard := range []bool{false, true} {
			t.Run(fmt.Sprint(name, hard), func(t *testing.T) {
				t.Parallel()
				cfg := Config{}
				if hard {
					cfg.grace = 1 // a nanosecond: it is killed before it can tidy up
				}
				g := open(t, cfg)
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
				require.NoError(t, again.Quiet(t.Context(), "r1", "p1"))
				require.Equal(t, head(t, again, "r1", "main"), head(t, again, "r1", "work"))
			})
		}
	}
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
