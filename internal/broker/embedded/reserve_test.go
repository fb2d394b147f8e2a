package embedded

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/poll"
	"weir/schemas"
)

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
		require.Zero(t, marksIn(t, dir).Streams[logStream].Reserved)
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

// TestMoreIsReservedInTime: a stream that grows faster than the marks are written asks for more.
func TestMoreIsReservedInTime(t *testing.T) {
	t.Parallel()
	j := openJournal(t, Config{})
	j.reservedBy(t, ahead)
	require.False(t, j.Reserved(logStream, ahead+1))
	for i := range ahead * 3 / 4 {
		require.NoError(t, j.js.Conn().Publish(fmt.Sprintf("log.%d", i%10), nil))
	}
	require.NoError(t, j.js.Conn().Flush())
	j.reservedBy(t, ahead+1)
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
