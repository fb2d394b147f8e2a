package embedded_test

import (
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// replicatedTokens: what one node has stored is what another reads next,
// whichever replica each is connected to, and it hears of it besides.
func replicatedTokens(t *testing.T, nodes []*server.Server) {
	t.Helper()
	here, there := dial(t, nodes[0].ClientURL(), 3).Tokens(), dial(t, nodes[1].ClientURL(), 3).Tokens()
	var heard atomic.Uint64
	stop, err := there.Watch(func(r schemas.Record) { heard.Store(r.Seq) }, nil)
	require.NoError(t, err)
	defer stop()
	var last uint64
	for i := range 50 {
		key := "k" + strconv.Itoa(i%5)
		var before uint64
		all, err := there.Read(t.Context(), 0, 10)
		require.NoError(t, err)
		for _, r := range all {
			if r.Subject == key {
				before = r.Seq
			}
		}
		rev, err := here.Put(t.Context(), key, []byte(strconv.Itoa(i)), before)
		require.NoError(t, err, "what was read is the newest")
		got, err := there.Get(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, rev, got.Seq)
		next, err := there.Read(t.Context(), last, 10)
		require.NoError(t, err)
		require.Len(t, next, 1)
		require.Equal(t, rev, next[0].Seq)
		require.Equal(t, strconv.Itoa(i), string(next[0].Data))
		last = rev
	}
	// What a leader stores before it knows of a watch, or as it stops leading, is not heard.
	more := 0
	poll.Until(t, func() bool {
		more++
		rev, err := here.Put(t.Context(), "more"+strconv.Itoa(more), nil, 0)
		return err == nil && heard.Load() == rev
	})
}

// door is the address of a server that goes away and comes back: its listener
// stays, so that nobody else gets the port meanwhile.
type door struct {
	net.Listener
	leads atomic.Value // the address of the server, or ""
}

func open(t *testing.T) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d := &door{Listener: l}
	d.leads.Store("")
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { d.pass(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return d
}

// leadTo has the connections to come go on to s, until the test's end stops it.
func (d *door) leadTo(t *testing.T, s *server.Server) {
	t.Helper()
	d.leads.Store(s.Addr().String())
	t.Cleanup(d.lock)
}

// lock has the connections to come end at once.
func (d *door) lock() { d.leads.Store("") }

func (d *door) pass(c net.Conn) {
	defer func() { _ = c.Close() }()
	at, _ := d.leads.Load().(string)
	if at == "" {
		return
	}
	to, err := net.Dial("tcp", at)
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(c, to)
		_ = c.Close()
	})
	_, _ = io.Copy(to, c)
	_ = to.Close()
	back.Wait()
}

// TestTokensOfAServerThatRestarts: nothing is read while it is away, the watch
// says that it has lost its place, and goes on.
func TestTokensOfAServerThatRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, &server.Options{StoreDir: dir})
	door := open(t)
	door.leadTo(t, s)
	k := dial(t, "nats://"+door.Addr().String(), 1).Tokens()
	heard, lost := make(chan schemas.Record, 10), make(chan struct{}, 10)
	stop, err := k.Watch(func(r schemas.Record) { heard <- r }, func() { lost <- struct{}{} })
	require.NoError(t, err)
	defer stop()
	rev, err := k.Put(t.Context(), "a", []byte("1"), 0)
	require.NoError(t, err)
	require.Equal(t, rev, (<-heard).Seq)
	door.lock()
	s.Shutdown()
	s.WaitForShutdown()
	_, err = k.Read(t.Context(), 0, 10)
	require.ErrorIs(t, err, fault.ErrUnavailable, "not an empty store")
	door.leadTo(t, serve(t, &server.Options{StoreDir: dir}))
	<-lost
	poll.Until(t, func() bool {
		_, err := k.Put(t.Context(), "a", []byte("2"), 0)
		return errors.Is(err, fault.ErrFenced)
	})
	_, err = k.Read(t.Context(), 0, 10) // behind what it listens to
	require.NoError(t, err)
	next, err := k.Put(t.Context(), "a", []byte("2"), rev)
	require.NoError(t, err)
	require.Equal(t, next, (<-heard).Seq)
}
