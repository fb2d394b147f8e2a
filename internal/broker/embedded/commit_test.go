package embedded

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
)

// gated is a sync that begins when it is called and ends when it is told to.
type gated struct {
	calls atomic.Int32
	end   chan error
}

func newGated() *gated { return &gated{end: make(chan error)} }

func (g *gated) sync() error {
	g.calls.Add(1)
	return <-g.end
}

// wait starts a waiter and returns its answer's channel.
func wait(ctx context.Context, c *commit) chan error {
	done := make(chan error, 1)
	go func() { done <- c.wait(ctx) }()
	return done
}

func released(c chan error) bool { return len(c) == 1 }

func TestCommitReleasesOnlyByALaterSync(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		c := newCommit(g.sync, nil)
		first := wait(t.Context(), c)
		synctest.Wait()
		require.EqualValues(t, 1, g.calls.Load())

		// These ask while the first sync runs: it may not cover them.
		var late []chan error
		for range 50 {
			late = append(late, wait(t.Context(), c))
		}
		synctest.Wait()
		g.end <- nil
		synctest.Wait()
		require.True(t, released(first))
		for _, l := range late {
			require.False(t, released(l), "released by a sync that began before it asked")
		}
		require.EqualValues(t, 2, g.calls.Load())

		// One sync serves them all, and nobody else's turn comes after it.
		g.end <- nil
		synctest.Wait()
		for _, l := range late {
			require.True(t, released(l))
			require.NoError(t, <-l)
		}
		require.EqualValues(t, 2, g.calls.Load())
		require.NoError(t, <-first)
	})
}

func TestCommitFailureIsFinal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("input/output error")
		g := newGated()
		failed := make(chan struct{})
		c := newCommit(g.sync, func() { close(failed) })
		first := wait(t.Context(), c)
		synctest.Wait()
		second := wait(t.Context(), c)
		synctest.Wait()
		g.end <- broken
		synctest.Wait()

		for _, w := range []chan error{first, second, wait(t.Context(), c)} {
			err := <-w
			require.ErrorIs(t, err, broken)
			require.ErrorIs(t, err, fault.ErrUnavailable)
		}
		require.EqualValues(t, 1, g.calls.Load(), "a failed sync is not tried again: it could report success")
		select {
		case <-failed:
		default:
			t.Fatal("the failure is not announced")
		}
	})
}

func TestCommitWaiterMayLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		c := newCommit(g.sync, nil)
		ctx, cancel := context.WithCancel(t.Context())
		w := wait(ctx, c)
		synctest.Wait()
		cancel()
		err := <-w
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, fault.ErrUnavailable)

		// Its sync goes on and harms nobody.
		next := wait(t.Context(), c)
		synctest.Wait()
		g.end <- nil
		g.end <- nil
		require.NoError(t, <-next)
	})
}
