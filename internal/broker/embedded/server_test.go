package embedded

import (
	"errors"
	"math"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/weirtest/poll"
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

// TestStoreThatRefusedAWrite takes no more to that stream; only a restart opens it again, for which the
// disk needs room.
func TestStoreThatRefusedAWrite(t *testing.T) {
	t.Parallel()
	var free atomic.Int64
	free.Store(1 << 30)
	s := start(t, Config{MaxBytes: 16 << 20, Free: func() (int64, error) { return free.Load(), nil }})
	require.EqualValues(t, 1<<30-1<<20, s.CheckDisk(), "a sixteenth of the wall is kept")
	small := start(t, Config{MaxBytes: 10 << 30, Free: func() (int64, error) { return 32 << 20, nil }})
	require.EqualValues(t, 30<<20, small.CheckDisk(), "or of a disk that has less room")
	free.Store(-1)
	require.EqualValues(t, math.MaxInt64, s.CheckDisk(), "it is unknown")
	free.Store(1 << 19)
	require.Negative(t, s.CheckDisk())
	require.NoError(t, s.Healthy())

	nc, js := connect(t, s)
	must(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, MaxBytes: 128_000}))(t)
	require.NoError(t, os.Mkdir(s.dir.file("jetstream/$G/streams/S/msgs/2.blk"), 0o700)) // where the next block belongs
	poll.Until(t, func() bool {
		require.NoError(t, nc.Publish("s", make([]byte, 10_000)))
		return s.Healthy() != nil
	})
	require.ErrorContains(t, s.Healthy(), "2.blk: is a directory")
	require.Negative(t, s.CheckDisk())
	select {
	case <-s.Failed():
		t.Fatal("there is no room to start again")
	default:
	}
	free.Store(1 << 30)
	require.Zero(t, s.CheckDisk(), "nothing more is accepted")
	<-s.Failed()
	require.ErrorContains(t, s.Healthy(), "2.blk: is a directory", "the cause of the end")
}

func TestServerSyncsEachWhereThereIsNoOtherWay(t *testing.T) {
	t.Parallel()
	s := &Server{cfg: Config{Dir: t.TempDir(), Durability: schemas.DurabilityDisk}}
	o := must(s.options())(t)
	require.True(t, o.SyncAlways)
	require.NoError(t, s.Barrier(t.Context()))

	s.group = newCommit(func() error { return nil }, nil)
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

func TestDataDirIsMarkedAndReopened(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "for", "us")
	d := must(openDataDir(dir, layout))(t)
	raw := must(os.ReadFile(filepath.Join(dir, markerName)))(t)
	require.JSONEq(t, `{"format":2,"partitions":1}`, string(raw))
	st := must(os.Stat(dir))(t)
	require.Equal(t, os.FileMode(0o700), st.Mode().Perm())
	require.NoError(t, d.close())

	d = must(openDataDir(dir, layout))(t)
	require.NoError(t, d.close())
	files := must(os.ReadDir(dir))(t)
	require.Len(t, files, 2, "nothing temporary is left")
}

func TestDataDirRefusals(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file, content string // what lies in the directory; content "/": a directory
		below         string // what is opened of it
		says          []string
	}{
		"newer format":          {markerName, `{"format":3,"partitions":1}`, "", []string{"has format 3", "reads format 2", "run the weir that wrote it"}},
		"other partitions":      {markerName, `{"format":2,"partitions":4}`, "", []string{"has 4 partitions and 1 are configured", "configure 4"}},
		"damaged marker":        {markerName, `{"for`, "", []string{"is damaged", "restore it"}},
		"empty marker":          {markerName, ``, "", []string{"is damaged", "restore it"}},
		"somebody else's store": {storeName, "/", "", []string{"holds a message store and no weir.json", "name another directory"}},
		"a file":                {"f", "", "f", []string{"is a file", "name a directory"}},
		"below a file":          {"f", "", "f/x", []string{"cannot be created", "name another directory"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, tc.file)
			if tc.content == "/" {
				require.NoError(t, os.Mkdir(path, 0o700))
			} else {
				require.NoError(t, os.WriteFile(path, []byte(tc.content), 0o600))
			}
			_, err := openDataDir(filepath.Join(dir, tc.below), layout)
			require.ErrorIs(t, err, ErrDataDir)
			for _, s := range tc.says {
				require.ErrorContains(t, err, s)
			}
		})
	}
}

func TestDataDirInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := must(openDataDir(dir, layout))(t)
	_, err := openDataDir(dir, layout)
	require.ErrorIs(t, err, ErrDataDir)
	require.ErrorContains(t, err, "in use by another weir: stop that one")
	require.NoError(t, d.close())
}
