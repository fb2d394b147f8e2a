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
