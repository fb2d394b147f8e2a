package broker

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/schemas"
)

var task = schemas.Ref{Tenant: "t", Kind: schemas.KindTask, ID: "task"}

func (n *node) tell(t *testing.T, ref schemas.Ref, tail schemas.Tail, data string, last uint64) uint64 {
	t.Helper()
	return n.put(t, schemas.Append{Subject: layout.Subject(ref, tail), Data: []byte(data), Guarded: true, Guard: layout.All(ref), Last: last})
}

// TestSignalsWakeTasks: each is work, as the other events are not, and no other kind
// has any.
func TestSignalsWakeTasks(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	s := NewSubscriber(n.Broker, SubscriberConfig{})
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	topics := WorkTopics(0, schemas.KindTask)
	accepted, err := s.Subscribe(t.Context(), topics[0])
	require.NoError(t, err)
	signals, err := s.Subscribe(t.Context(), topics[2])
	require.NoError(t, err)
	run := schemas.Ref{Tenant: "t", Kind: schemas.KindRun, ID: "run"}
	n.tell(t, run, schemas.TailSignal, "no task's", 0)
	last := n.tell(t, task, schemas.TailAccepted, "accepted", 0)
	last = n.tell(t, task, schemas.TailEvent, "started", last)
	last = n.tell(t, task, schemas.TailSignal, "claimed", last)
	last = n.tell(t, task, schemas.TailEvent, "lost", last)
	n.tell(t, task, schemas.TailSignal, "claimed again", last)
	m := next(t, accepted)
	require.Equal(t, "accepted", string(m.Payload))
	m.Ack()
	seen := map[string]bool{} // two slots may hand them out in any order
	for range 2 {
		m := next(t, signals)
		seen[string(m.Payload)] = true
		m.Ack()
	}
	require.Equal(t, map[string]bool{"claimed": true, "claimed again": true}, seen)
	c, err := n.js.Consumer(t.Context(), schemas.LogStream(0), string(schemas.KindRun))
	require.NoError(t, err)
	require.Zero(t, c.CachedInfo().NumPending)
}

// TestAnEarlierVersionsQueueIsParted: it had one consumer a kind, for all tails. That one
// keeps its place among the new actions, and what it had not given out of the others
// comes by theirs.
func TestAnEarlierVersionsQueueIsParted(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	stream := schemas.LogStream(0)
	old := n.workConsumer(0, schemas.KindTask, schemas.TailAccepted)
	for _, tail := range schemas.WorkTails(schemas.KindTask)[1:] {
		cfg := n.workConsumer(0, schemas.KindTask, tail)
		old.FilterSubjects = append(old.FilterSubjects, cfg.FilterSubjects...)
		require.NoError(t, n.js.DeleteConsumer(t.Context(), stream, cfg.Durable))
	}
	c, err := n.js.CreateOrUpdateConsumer(t.Context(), stream, old)
	require.NoError(t, err)
	last := n.tell(t, task, schemas.TailAccepted, "accepted", 0)
	m, err := c.Next()
	require.NoError(t, err)
	require.NoError(t, m.DoubleAck(t.Context()))
	n.tell(t, task, schemas.TailSignal, "unheard", last)

	n.second(t)
	other := schemas.Ref{Tenant: "t", Kind: schemas.KindTask, ID: "another"}
	n.tell(t, other, schemas.TailAccepted, "accepted later", 0)
	for durable, want := range map[string]string{"task": "accepted later", "task_signal": "unheard"} {
		c, err := n.js.Consumer(t.Context(), stream, durable)
		require.NoError(t, err)
		require.Len(t, c.CachedInfo().Config.FilterSubjects, 1)
		m, err := c.Next(jetstream.FetchMaxWait(readTimeout))
		require.NoError(t, err)
		require.Equal(t, want, string(m.Data()))
	}
}
