package broker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// TestNewActionsAreTakenEarly: a worker that is alone has them before their messages, counts none twice, and
// acknowledges the messages when they come.
func TestNewActionsAreTakenEarly(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	s, out := n.subscribe(t, SubscriberConfig{Alone: true, Slots: 1})
	first := claim("a", "first")
	first.Urgent = true
	seq := n.put(t, first)
	m := next(t, out)
	rec, deliveries := RecordOf(m)
	require.EqualValues(t, 1, deliveries)
	require.Equal(t, seq, rec.Seq)
	require.Equal(t, "first", string(rec.Data))
	require.True(t, deliveryOf(m).urgent)
	seq = n.put(t, claim("b", "waits"))
	n.put(t, event("b", "is no action", seq))
	for _, tenant := range []string{"", "t"} {
		poll.Until(t, func() bool { return must(n.Waiting(t.Context(), tenant))(t) == 0 }, "both are here")
	}
	m.Ack()
	m = next(t, out)
	require.Equal(t, "waits", string(m.Payload))
	poll.Until(t, func() bool { return n.consumer(t).NumAckPending == 1 }, "the first is acknowledged")
	m.Ack()
	n.settled(t)
	require.Empty(t, s.only().early.taken)
	require.Zero(t, n.metrics.get(&n.metrics.redelivered))
}

// TestARefusedEarlyActionComesAgain, as a message that was delivered before.
func TestARefusedEarlyActionComesAgain(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	_, out := n.subscribe(t, SubscriberConfig{Alone: true})
	n.put(t, claim("a", "a"))
	m := next(t, out)
	NakAfter(m, 1)
	m.Nack()
	m = next(t, out)
	_, deliveries := RecordOf(m)
	require.EqualValues(t, 2, deliveries)
	m.Ack()
	n.settled(t)
}

// TestEarlyActionsMoveOn: one too many moves to an overflow queue, and its message is acknowledged.
func TestEarlyActionsMoveOn(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	out := n.subscribeAll(t, SubscriberConfig{Alone: true, Slots: 1, Backlog: 1})
	n.fill(t, 20)
	seen := map[string]bool{}
	for range 20 {
		m := next(t, out)
		rec, _ := RecordOf(m)
		ref, _, err := schemas.ParseSubject(rec.Subject)
		require.NoError(t, err)
		require.False(t, seen[ref.ID])
		seen[ref.ID] = true
		m.Ack()
	}
	n.settled(t)
}

// TestAnEarlyActionOutlivesItsWorker: one that has not begun is delivered to the next worker, and one that
// has ended is not.
func TestAnEarlyActionOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	s := NewSubscriber(n.Broker, SubscriberConfig{Alone: true, Slots: 1})
	out := must(s.Subscribe(t.Context(), work))(t)
	n.fill(t, 2)
	m := next(t, out)
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	poll.Until(t, func() bool { f := s.only(); f.slots.mu.Lock(); defer f.slots.mu.Unlock(); return f.closing })
	m.Ack()
	require.NoError(t, <-closed)
	n.put(t, claim("c", "for nobody yet"))
	_, again := n.subscribe(t, SubscriberConfig{Alone: true})
	require.Len(t, ackAll(t, again, 2, 2), 2, "not the first, and none as if it were new")
	n.settled(t)
}
