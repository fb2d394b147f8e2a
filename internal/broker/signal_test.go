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
	out, err := s.Subscribe(t.Context(), WorkTopic(0, schemas.KindTask))
	require.NoError(t, err)
	run := schemas.Ref{Tenant: "t", Kind: schemas.KindRun, ID: "run"}
	n.tell(t, run, schemas.TailSignal, "no task's", 0)
	last := n.tell(t, task, schemas.TailAccepted, "accepted", 0)
	last = n.tell(t, task, schemas.TailEvent, "started", last)
	last = n.tell(t, task, schemas.TailSignal, "claimed", last)
	last = n.tell(t, task, schemas.TailEvent, "lost", last)
	n.tell(t, task, schemas.TailSignal, "claimed again", last)
	seen := map[string]bool{}
	for range 3 {
		m := next(t, out)
		seen[string(m.Payload)] = true
		m.Ack()
	}
	require.Equal(t, map[string]bool{"accepted": true, "claimed": true, "claimed again": true}, seen)
	c, err := n.js.Consumer(t.Context(), schemas.LogStream(0), string(schemas.KindRun))
	require.NoError(t, err)
	require.Zero(t, c.CachedInfo().NumPending)
}

// TestConsumersLearnOfSignals: one that an earlier version made takes them from the
// next start on, and keeps its place.
func TestConsumersLearnOfSignals(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	old := n.workConsumer(0, schemas.KindTask)
	old.FilterSubjects = old.FilterSubjects[:2]
	c, err := n.js.CreateOrUpdateConsumer(t.Context(), schemas.LogStream(0), old)
	require.NoError(t, err)
	last := n.tell(t, task, schemas.TailAccepted, "accepted", 0)
	m, err := c.Next()
	require.NoError(t, err)
	require.NoError(t, m.DoubleAck(t.Context()))
	last = n.tell(t, task, schemas.TailSignal, "unheard", last)

	n.second(t)
	c, err = n.js.Consumer(t.Context(), schemas.LogStream(0), string(schemas.KindTask))
	require.NoError(t, err)
	require.Equal(t, schemas.WorkFilters(0, schemas.KindTask), c.CachedInfo().Config.FilterSubjects)
	n.tell(t, task, schemas.TailSignal, "claimed", last)
	var got string
	for got != "claimed" { // whether the one before comes too is the server's to say
		m, err := c.Next(jetstream.FetchMaxWait(readTimeout))
		require.NoError(t, err)
		require.NotEqual(t, "accepted", string(m.Data()))
		got = string(m.Data())
		require.NoError(t, m.DoubleAck(t.Context()))
	}
}
