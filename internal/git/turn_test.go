//go:build linux

package git

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

func TestTurns(t *testing.T) {
	t.Parallel()
	g := open(t, Config{Processes: 1})
	_, err := g.Create(t.Context(), "r1", "main")
	require.NoError(t, err)
	g.cfg.Timeout = 100 * time.Millisecond
	held, err := g.sending(t.Context(), "")
	require.NoError(t, err)
	var out bytes.Buffer
	require.ErrorIs(t, g.Advertise(t.Context(), "r1", "git-upload-pack", 2, View{All: true}, &out), ErrBusy)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	require.ErrorIs(t, g.Advertise(ctx, "r1", "git-upload-pack", 2, View{All: true}, &out), errGone)
	<-held.ctx.Done()
	require.ErrorIs(t, context.Cause(held.ctx), ErrTimeout)
	held.end()
	g.cfg.Timeout = time.Minute
	require.NoError(t, g.Advertise(t.Context(), "r1", "git-upload-pack", 2, View{All: true}, &out))
	require.NotEmpty(t, out.Bytes())
}

func TestPushThatTakesTooLong(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	first := begin(t, g, "work")
	g.cfg.Timeout = 5 * time.Second
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	// The client says nothing; its connection has a deadline of its own, a little later.
	go func() {
		waitFor(t, func() bool { return len(childrenOf(g.cfg.Dir)) > 0 })
		waitFor(t, func() bool { return len(childrenOf(g.cfg.Dir)) == 0 })
		_ = w.CloseWithError(errGone)
	}()
	_, err := g.ReceivePack(t.Context(), "r1", pushOf("p", "work", first, first, r))
	require.ErrorIs(t, err, errGone, "the reader's failure comes first")
	clean(t, g, "r1")
}

// Clients that begin a push and send no more are in the way of those who push to the same repository, and
// of nobody else.
func TestPushesThatStandStill(t *testing.T) {
	t.Parallel()
	g := open(t, Config{Processes: 8}) // four pushes, two of one repository
	from := begin(t, g, "work")
	_, err := g.Create(t.Context(), "r2", "main")
	require.NoError(t, err)
	other, err := g.Branch(t.Context(), "r2", "work", "main", "t1")
	require.NoError(t, err)
	const n = 8
	var clients []*io.PipeWriter
	done := make(chan error, n)
	for i := range n {
		r, w := io.Pipe()
		clients = append(clients, w)
		go func() {
			_, err := g.ReceivePack(t.Context(), "r1", pushOf("p"+strconv.Itoa(i), "work", from, oidOf('1'), r))
			done <- err
		}()
	}
	require.Eventually(t, func() bool { return len(g.writes.all) == 2 }, 10*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return len(childrenOf(g.cfg.Dir)) >= 2 }, 10*time.Second, time.Millisecond)
	for _, id := range []string{"r1", "r2"} {
		for _, service := range []string{schemas.GitUploadPack, schemas.GitReceivePack} {
			var out bytes.Buffer
			require.NoError(t, g.Advertise(t.Context(), id, service, 0, View{All: true}, &out))
			require.Contains(t, out.String(), "refs/heads/work")
		}
	}
	clone(t, serve(t, g), "r1", "-b", "work")
	rep, err := g.ReceivePack(t.Context(), "r2", pushOf("q", "work", other, other, bytes.NewReader(packOf(t, clone(t, serve(t, g), "r2"), "HEAD"))))
	require.NoError(t, err)
	require.Equal(t, "ok", rep.Unpack)
	require.Len(t, g.writes.all, 2, "no more of r1 have begun")
	for _, w := range clients {
		_ = w.CloseWithError(errGone)
	}
	for range clients {
		require.ErrorIs(t, <-done, errGone)
	}
	require.Empty(t, g.writes.of, "nobody waits for a repository")
	require.Empty(t, g.writes.all)
}

func oidOf(c byte) string { return string(bytes.Repeat([]byte{c}, 40)) }

func TestWhoGivesUpWaitingIsInNobodysWay(t *testing.T) {
	t.Parallel()
	s := newTurns(2, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	first, err := s.take(ctx, "a")
	require.NoError(t, err)
	waits := make(chan error, 1)
	go func() {
		_, err := s.take(ctx, "a")
		waits <- err
	}()
	require.Eventually(t, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.of["a"].users == 2 }, 10*time.Second, time.Millisecond)
	second, err := s.take(ctx, "b")
	require.NoError(t, err, "who waits for another repository's has taken nothing")
	third := make(chan error, 1)
	go func() {
		_, err := s.take(ctx, "c")
		third <- err
	}()
	require.Eventually(t, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.of) == 3 }, 10*time.Second, time.Millisecond)
	cancel(errGone)
	require.ErrorIs(t, <-waits, errGone)
	require.ErrorIs(t, <-third, errGone)
	first()
	second()
	require.Empty(t, s.of)
	require.Empty(t, s.all)
}
