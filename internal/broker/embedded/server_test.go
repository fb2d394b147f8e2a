package embedded

import (
	"errors"
	"net"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/schemas"
)

func connect(t *testing.T, s *Server) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc := must(s.Connect())(t)
	t.Cleanup(nc.Close)
	js := must(jetstream.New(nc))(t)
	return nc, js
}

func TestServerKeepsWhatItStored(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"", "127.0.0.1:0"} {
		t.Run("listen "+listen, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := start(t, Config{Dir: dir, Listen: listen})
			nc, js := connect(t, s)
			must(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}))(t)
			must(js.Publish(t.Context(), "s.1", []byte("x")))(t)
			require.NoError(t, s.Barrier(t.Context()))
			require.NoError(t, s.Healthy())
			nc.Close()
			require.NoError(t, s.Stop())
			require.NoError(t, s.Stop(), "twice is once")
			require.ErrorIs(t, s.Healthy(), fault.ErrUnavailable)

			// With a port or without one, it is the same store.
			other := map[string]string{"": "127.0.0.1:0", "127.0.0.1:0": ""}[listen]
			s = start(t, Config{Dir: dir, Listen: other})
			_, js = connect(t, s)
			info := must(js.Stream(t.Context(), "S"))(t)
			require.EqualValues(t, 1, info.CachedInfo().State.Msgs)
		})
	}
}

func TestServerPortTaken(t *testing.T) {
	t.Parallel()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { require.NoError(t, l.Close()) }()
	dir := t.TempDir()
	_, err := Start(Config{Dir: dir, Layout: layout, Listen: l.Addr().String()})
	require.ErrorContains(t, err, "is free to listen on")
	start(t, Config{Dir: dir}) // the failed start gave the directory back
}

func TestServerDurabilities(t *testing.T) {
	t.Parallel()
	broken := errors.New("gone")
	fails := func() error { return broken }

	process := start(t, Config{Durability: schemas.DurabilityProcess, Sync: fails})
	require.NoError(t, process.Barrier(t.Context()), "process waits for nothing")

	disk := start(t, Config{Sync: fails})
	require.Equal(t, schemas.DurabilityDisk, disk.Durability())
	require.ErrorIs(t, disk.Barrier(t.Context()), broken)
	<-disk.Failed()
	require.ErrorIs(t, disk.Healthy(), fault.ErrUnavailable)
	require.ErrorIs(t, disk.Barrier(t.Context()), broken, "for good")
}

func TestServerSyncsEachWhereThereIsNoOtherWay(t *testing.T) {
	t.Parallel()
	s := &Server{cfg: Config{Dir: t.TempDir(), Durability: schemas.DurabilityDisk}}
	o := must(s.options())(t)
	require.True(t, o.SyncAlways)
	require.NoError(t, s.Barrier(t.Context()))

	s.group = newCommit(func() error { return nil })
	o = must(s.options())(t)
	require.False(t, o.SyncAlways)
	require.Equal(t, syncInterval, o.SyncInterval)
}

func TestDefaultsOfAServer(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	require.Empty(t, s.Addr(), "it opens no port unless it is told to")
	require.Positive(t, s.MaxBytes())
	require.Equal(t, int64(12345), start(t, Config{MaxBytes: 12345}).MaxBytes())
}
