package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// TestMarksOfProcess: they are there between a clean stop and the next start alone, because a power
// cut may make the log shorter in between.
func TestMarksOfProcess(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir(), Durability: schemas.DurabilityProcess}
	for range 2 {
		j := openJournal(t, cfg)
		require.NoFileExists(t, filepath.Join(cfg.Dir, marksName))
		last := j.write(t, 3, 10)
		require.NoError(t, j.Stop())
		m := marksIn(t, cfg.Dir)
		require.True(t, m.Clean)
		require.Equal(t, last, m.Streams[logStream].Last)
	}
	rewrite(1, func(b []byte) []byte { return b[:len(b)/2] })(t, cfg.Dir)
	_, err := Start(Config{Dir: cfg.Dir, Durability: cfg.Durability, Layout: layout})
	require.ErrorIs(t, err, ErrDataDir)
	require.FileExists(t, filepath.Join(cfg.Dir, marksName))
}

// TestALogWithoutMarks, as an older version has left it, starts and gets some; to open its streams
// again changes nothing.
func TestALogWithoutMarks(t *testing.T) {
	t.Parallel()
	j := openJournal(t, Config{})
	last := j.write(t, 3, 10)
	require.NoError(t, j.Stop())
	require.NoError(t, os.Remove(filepath.Join(j.cfg.Dir, marksName)))
	j = openJournal(t, Config{Dir: j.cfg.Dir})
	require.NoError(t, j.Opened())
	j.marked(t, last)
	require.False(t, marksIn(t, j.cfg.Dir).Clean)
}

// TestWhatHasNoMarkMayBeTorn: records behind the mark were not known to be on the disk, and a power
// cut may leave any of them.
func TestWhatHasNoMarkMayBeTorn(t *testing.T) {
	t.Parallel()
	j := openJournal(t, Config{})
	last := j.write(t, 3, 10)
	j.marked(t, last)
	dir := j.crashed(t)
	for range 3 { // records that are half there, one after the other
		rewrite(1, func(b []byte) []byte { return append(b, b[:40]...) })(t, dir)
	}
	j = openJournal(t, Config{Dir: dir})
	require.Greater(t, j.write(t, 1, 10), last)
}

// TestMarksOutliveWhatIsDeleted: an empty stream has not lost its records.
func TestMarksOutliveWhatIsDeleted(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"killed", "stopped"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			j := openJournal(t, Config{})
			last := j.write(t, 30, 2_000)
			j.marked(t, last)
			s := must(j.js.Stream(t.Context(), logStream))(t)
			require.NoError(t, s.DeleteMsg(t.Context(), last-1))
			require.NoError(t, s.Purge(t.Context(), jetstream.WithPurgeSequence(last-2)))
			require.NoError(t, s.Purge(t.Context()))
			dir := j.crashed(t)
			if require.NoError(t, j.Stop()); how == "stopped" {
				dir = j.cfg.Dir
			}
			j = openJournal(t, Config{Dir: dir})
			require.Greater(t, j.write(t, 1, 10), last)
		})
	}
}

// TestWhatAgesDuringAStop is no loss: the marks of a clean stop are of the files that it left.
func TestWhatAgesDuringAStop(t *testing.T) {
	t.Parallel()
	for name, befall := range map[string]func(t *testing.T, dir string){
		"aged": remove(1),
		"unreadable": func(t *testing.T, dir string) {
			t.Helper()
			remove(1)(t, dir)
			require.NoError(t, os.Mkdir(blockFile(dir, 1), 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := openJournal(t, Config{})
			last := j.write(t, 30, 2_400) // three blocks
			j.end()
			j.marking.Wait()
			m := must(j.reach())(t)
			j.ns.Shutdown()
			j.ns.WaitForShutdown()
			befall(t, j.cfg.Dir)
			j.endMarks(m)
			require.NoError(t, j.Stop())
			require.True(t, marksIn(t, j.cfg.Dir).Clean)
			require.NoError(t, os.RemoveAll(blockFile(j.cfg.Dir, 1)))
			j = openJournal(t, Config{Dir: j.cfg.Dir})
			require.Equal(t, last+1, j.write(t, 1, 10))
		})
	}
}

// TestAStreamMadeAnew has lost what the one before it held, while the server ran or not.
func TestAStreamMadeAnew(t *testing.T) {
	t.Parallel()
	j := openJournal(t, Config{})
	last := j.write(t, 3, 10)
	j.marked(t, last)
	require.NoError(t, j.js.DeleteStream(t.Context(), logStream))
	require.NoError(t, j.Stop())
	_, err := Start(Config{Dir: j.cfg.Dir, Layout: layout})
	require.ErrorContains(t, err, logStream+" lacks records 1 to 3, which were acknowledged")
}

// TestMarksPromiseNoMoreThanASync: after one that failed they stay where they were.
func TestMarksPromiseNoMoreThanASync(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	j := openJournal(t, Config{Sync: func() error {
		if broken.Load() {
			return errors.New("no such luck")
		}
		return nil
	}})
	last := j.write(t, 3, 10)
	j.marked(t, last)
	broken.Store(true)
	must(j.js.Publish(t.Context(), "log.later", nil))(t)
	<-j.Failed()
	require.NoError(t, j.Stop())
	m := marksIn(t, j.cfg.Dir)
	require.False(t, m.Clean)
	require.Equal(t, last, m.Streams[logStream].Last)
}

func TestMarksThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for content, says := range map[string]string{
		"\x00\x00":                   "weir.marks is damaged, so Weir cannot tell whether the log is complete",
		`{"version":2,"streams":{}}`: "has version 2 and this weir reads version 1: run the weir that wrote it",
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, marksName), []byte(content), 0o600))
		_, err := Start(Config{Dir: dir, Layout: layout})
		require.ErrorIs(t, err, ErrDataDir)
		require.ErrorContains(t, err, says)
		require.Equal(t, []string{"the log was not checked: its marks cannot be read"}, start(t, Config{Dir: dir, AcceptLoss: true}).Lost())
	}
}

// reservedBy waits until a sequence is reserved.
func (j journal) reservedBy(t *testing.T, seq uint64) {
	t.Helper()
	poll.Until(t, func() bool { return j.Reserved(logStream, seq) })
}

// TestNoSequenceTwice: what was stored behind the last sync may be gone after a power cut, and its
// sequences are nobody else's then. Readers and queues go on behind them.
func TestNoSequenceTwice(t *testing.T) {
	t.Parallel()
	j := openJournal(t, Config{})
	synced := j.write(t, 30, 2_400) // three blocks
	j.marked(t, synced)
	j.reservedBy(t, synced+1)
	queue := must(j.js.CreateConsumer(t.Context(), logStream, jetstream.ConsumerConfig{Durable: "queue", AckPolicy: jetstream.AckExplicitPolicy}))(t)
	drained(t, queue, int(synced))
	dir := j.crashed(t) // what is written from now on, the power takes
	shown := j.write(t, 50, 10)
	require.True(t, j.Reserved(logStream, shown))

	j = openJournal(t, Config{Dir: dir})
	info := must(j.stream(t).Info(t.Context()))(t)
	require.Equal(t, synced, info.State.Msgs)
	require.Equal(t, synced+ahead, info.State.LastSeq)
	next := j.write(t, 1, 10)
	require.Equal(t, synced+ahead+1, next)
	queue = must(j.js.Consumer(t.Context(), logStream, "queue"))(t)
	for got := uint64(0); got != next; { // what it was given before may come once more
		got = drained(t, queue, 1)
	}
	require.NoError(t, j.Stop())

	// A clean stop has nothing to skip, however often.
	for range 2 {
		j = openJournal(t, Config{Dir: dir})
		next++
		require.Equal(t, next, j.write(t, 1, 10))
		require.NoError(t, j.Stop())
		require.True(t, marksIn(t, dir).Clean)
	}
}

// TestTheFirstSequencesAreGivenOnce: the power may take all of a new stream, whose first records
// were shown.
func TestTheFirstSequencesAreGivenOnce(t *testing.T) {
	t.Parallel()
	for name, levels := range map[string]int{"no file": 0, "no stream": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := openJournal(t, Config{})
			j.reservedBy(t, 1)
			dir := j.crashed(t)
			gone := (&dataDir{path: dir}).msgsDir(logStream)
			for range levels {
				gone = filepath.Dir(gone)
			}
			require.NoError(t, os.RemoveAll(gone))
			require.True(t, j.Reserved(logStream, j.write(t, 3, 10)))
			j = openJournal(t, Config{Dir: dir})
			require.Empty(t, j.Lost())
			require.Equal(t, uint64(ahead+1), j.write(t, 1, 10))
		})
	}
}

func (j journal) stream(t *testing.T) jetstream.Stream {
	t.Helper()
	s := must(j.js.Stream(t.Context(), logStream))(t)
	return s
}

// drained takes and acknowledges so many messages, and returns the place of the last.
func drained(t *testing.T, queue jetstream.Consumer, many int) (last uint64) {
	t.Helper()
	batch := must(queue.Fetch(many))(t)
	for m := range batch.Messages() {
		meta := must(m.Metadata())(t)
		last = meta.Sequence.Stream
		require.NoError(t, m.DoubleAck(t.Context()))
		many--
	}
	require.NoError(t, batch.Error())
	require.Zero(t, many)
	return last
}

// TestReservedIsCheap: it is asked for each event that is shown.
func TestReservedIsCheap(t *testing.T) { //nolint:paralleltest // it counts allocations
	process := start(t, Config{Durability: schemas.DurabilityProcess})
	require.True(t, process.Reserved(logStream, 1<<60), "there, a barrier has nothing to say")
	j := openJournal(t, Config{})
	require.False(t, j.Reserved("KV_OTHER", 1))
	j.reservedBy(t, 1)
	require.Zero(t, testing.AllocsPerRun(10_000, func() { j.Reserved(logStream, 1) }))
}
