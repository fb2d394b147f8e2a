package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/poll"
	"weir/schemas"
)

var logStream = schemas.LogStream(0)

// journal is a running server with the log's stream, as the broker makes it.
type journal struct {
	*Server
	js jetstream.JetStream
}

func openJournal(t *testing.T, cfg Config) journal {
	t.Helper()
	s := start(t, cfg)
	nc, js := connect(t, s)
	t.Cleanup(nc.Close)
	// With a limit so low, which nothing here reaches, a block is 32 kB.
	must(js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: logStream, Subjects: []string{"log.>"}, AllowDirect: true, MaxBytes: 120_000}))(t)
	require.NoError(t, s.Opened())
	return journal{s, js}
}

// write appends records, each under a subject of its own, and returns the last sequence.
func (j journal) write(t *testing.T, many, size int) (last uint64) {
	t.Helper()
	for i := range many {
		ack := must(j.js.Publish(t.Context(), fmt.Sprintf("log.%d", i), []byte(strings.Repeat("x", size))))(t)
		last = ack.Sequence
	}
	require.NoError(t, j.Barrier(t.Context()))
	return last
}

// marked waits until the marks on the disk have reached a record.
func (j journal) marked(t *testing.T, last uint64) {
	t.Helper()
	poll.Until(t, func() bool { return marksIn(t, j.cfg.Dir).Streams[logStream].Last >= last })
}

func marksIn(t *testing.T, dir string) (m marks) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, marksName))
	if os.IsNotExist(err) {
		return m
	}
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &m))
	return m
}

// crashed copies the directory of a running server, as a kill would leave it.
func (j journal) crashed(t *testing.T) (dir string) {
	t.Helper()
	purged := filepath.Join(filepath.Dir((&dataDir{path: j.cfg.Dir}).msgsDir(logStream)), "__msgs__")
	poll.Until(t, func() bool { // a copy is not of one moment
		_, err := os.Stat(purged)
		return os.IsNotExist(err)
	})
	for {
		dir = t.TempDir()
		err := os.CopyFS(dir, os.DirFS(j.cfg.Dir))
		if errors.Is(err, fs.ErrNotExist) { // a file that replaces another was there for a moment
			continue
		}
		require.NoError(t, err)
		return dir
	}
}

func blockFile(dir string, index int) string {
	return filepath.Join((&dataDir{path: dir}).msgsDir(logStream), fmt.Sprintf("%d.blk", index))
}

// TestDamagedLogIsRefused: whatever is gone of what the marks cover is told, nothing is changed by
// that, and the loss can be accepted: the sequence goes on behind it.
func TestDamagedLogIsRefused(t *testing.T) {
	t.Parallel()
	j := openJournal(t, Config{})
	last := j.write(t, 30, 2_400) // three blocks
	j.marked(t, last)
	killed := j.crashed(t)
	require.NoError(t, j.Stop())
	stopped := j.cfg.Dir
	blocks := must((&dataDir{path: stopped}).blocks(logStream))(t)
	require.Len(t, blocks, 3)
	acknowledged := fmt.Sprintf(" to %d, which were acknowledged", last)
	flip := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	zeros := func(b []byte) []byte { clear(b); return b }

	for name, tc := range map[string]struct {
		befall func(t *testing.T, dir string)
		says   string
		// spares is a directory that nothing is lost from.
		spares string
	}{
		"flipped":        {rewrite(3, flip), acknowledged + " (3.blk cannot be read)", ""},
		"cut":            {rewrite(3, func(b []byte) []byte { return b[:len(b)-100] }), fmt.Sprintf("lacks records %d%s (3.blk", last, acknowledged), ""},
		"gone":           {remove(3), acknowledged + ": records", ""},
		"older zeros":    {rewrite(2, zeros), "(2.blk cannot be read)", ""},
		"older gone":     {remove(2), "lacks records ", ""},
		"oldest flipped": {rewrite(1, flip), "(1.blk cannot be read)", ""},
		// It may have grown old.
		"oldest gone": {remove(1), "lacks records 1 to ", "killed"},
		"no stream": {func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.RemoveAll(filepath.Dir((&dataDir{path: dir}).msgsDir(logStream))))
		}, "lacks records 1" + acknowledged, ""},
	} {
		for how, from := range map[string]string{"killed": killed, "stopped": stopped} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				require.NoError(t, os.CopyFS(dir, os.DirFS(from)))
				tc.befall(t, dir)
				if tc.spares == how {
					require.Empty(t, openJournal(t, Config{Dir: dir}).Lost())
					return
				}
				before := sizes(t, dir)
				_, err := Start(Config{Dir: dir, Layout: layout})
				require.ErrorIs(t, err, ErrDataDir)
				for _, says := range []string{logStream, tc.says, "records that were acknowledged are gone", "restore the data directory from a backup", "start once with --accept-loss"} {
					require.ErrorContains(t, err, says)
				}
				require.Equal(t, before, sizes(t, dir))

				j := openJournal(t, Config{Dir: dir, AcceptLoss: true})
				require.Contains(t, strings.Join(j.Lost(), ""), " of "+logStream+" are lost")
				require.Greater(t, j.write(t, 1, 10), last)
				require.NoError(t, j.Stop())
				if how == "killed" { // and is accepted for good
					require.Empty(t, openJournal(t, Config{Dir: dir}).Lost())
				}
			})
		}
	}
}

// TestDamageBeforeAnEmptyFile is found by the file behind that one.
func TestDamageBeforeAnEmptyFile(t *testing.T) {
	t.Parallel()
	blocks := []block{{path: "1.blk", index: 1, first: 1, last: 3, damaged: true}, {path: "2.blk", index: 2}, {path: "3.blk", index: 3, first: 9, last: 12}}
	all := findLosses(logStream, mark{Last: 12}, blocks)
	require.Equal(t, []loss{{stream: logStream, span: span{From: 4, To: 8}, file: "1.blk"}}, all)
}

func rewrite(index int, do func([]byte) []byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		data := must(os.ReadFile(blockFile(dir, index)))(t)
		require.NoError(t, os.WriteFile(blockFile(dir, index), do(data), 0o600))
	}
}

func remove(index int) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		require.NoError(t, os.Remove(blockFile(dir, index)))
	}
}

// sizes are the files of a directory.
func sizes(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		all[path] = info.Size()
		return err
	}))
	return all
}

// TestFilesThatAreReadAfterACleanStop are the oldest and the newest: a loss there has all others
// read too.
func TestFilesThatAreReadAfterACleanStop(t *testing.T) {
	t.Parallel()
	j := openJournal(t, Config{})
	j.write(t, 60, 2_400)
	require.NoError(t, j.Stop())
	dir := j.cfg.Dir
	blocks := must((&dataDir{path: dir}).blocks(logStream))(t)
	require.Greater(t, len(blocks), 4)
	flip := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	rewrite(1, flip)(t, dir)
	_, err := Start(Config{Dir: dir, Layout: layout})
	require.ErrorContains(t, err, "(1.blk")
	rewrite(3, flip)(t, dir)
	_, err = Start(Config{Dir: dir, Layout: layout})
	require.ErrorContains(t, err, "(3.blk")
	rewrite(1, flip)(t, dir)
	require.Empty(t, openJournal(t, Config{Dir: dir}).Lost(), "one in between is not read")
}
