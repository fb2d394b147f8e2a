package broker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// TestPlaceOfAQuietQueueKeepsUp: the place of a queue that nothing was given out of moves
// behind what the log has taken since, and nothing that comes later is left out or comes twice.
func TestPlaceOfAQuietQueueKeepsUp(t *testing.T) {
	t.Parallel()
	const others = 40
	n := open(t, embedded.Config{}, Config{})
	_, out := n.subscribe(t, SubscriberConfig{PlaceEvery: 2 * time.Second, PlaceBehind: 1})
	give := func(id string) uint64 {
		seq := n.put(t, claim(id, id))
		m := next(t, out)
		rec, deliveries := RecordOf(m)
		require.Equal(t, seq, rec.Seq)
		require.EqualValues(t, 1, deliveries)
		m.Ack()
		n.settled(t)
		return seq
	}
	for _, round := range []string{"a", "b", "c"} {
		last := give(round)
		for range others { // no work of this queue
			last = n.put(t, event(round, "x", last))
		}
		poll.Until(t, func() bool { return n.place(t) == last })
	}
	give("d")
	require.Zero(t, n.metrics.get(&n.metrics.redelivered))
}

// TestPlaceStaysBeforeWhatIsLeft: what is held, or was given back, keeps its queue's place.
func TestPlaceStaysBeforeWhatIsLeft(t *testing.T) {
	t.Parallel()
	const others = 40
	n := open(t, embedded.Config{}, Config{})
	_, out := n.subscribe(t, SubscriberConfig{PlaceEvery: 5 * time.Millisecond, PlaceBehind: 1, NakDelay: 200 * time.Millisecond})
	last := n.put(t, claim("a", "a"))
	first := last
	m := next(t, out)
	for range others {
		last = n.put(t, event("a", "x", last))
	}
	require.Equal(t, first, n.place(t), "it is held")
	m.Nack()
	again := next(t, out) // many looks later
	rec, deliveries := RecordOf(again)
	require.Equal(t, first, rec.Seq)
	require.EqualValues(t, 2, deliveries, "the server has not forgotten that it gave it out")
	again.Ack()
	n.settled(t)
	poll.Until(t, func() bool { return n.place(t) == last })
}

// place is the last record that the queue of new actions has seen, as a start would find it.
func (n *node) place(t *testing.T) uint64 {
	t.Helper()
	c, err := n.js.Consumer(t.Context(), schemas.LogStream(0), "http")
	require.NoError(t, err)
	return c.CachedInfo().Delivered.Stream
}
