package broker

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/fault"
	"weir/schemas"
)

func publishesOnce(t *testing.T, n *node) {
	t.Helper()
	p := NewPublisher(n.Broker)
	topic := schemas.EvidenceSubject(schemas.Evidence{Tenant: "t", Kind: schemas.EvidenceAttempt, Entry: "e", ActionID: "a"})
	batch := func() []*message.Message {
		var all []*message.Message
		for i := range 50 {
			m := message.NewMessage(fmt.Sprint("id-", i), fmt.Append(nil, i))
			all = append(all, m)
		}
		return all
	}
	require.NoError(t, p.Publish(topic, batch()...))
	require.NoError(t, p.Publish(topic, batch()...), "a repeat is not an error")
	recs := must(n.Range(t.Context(), schemas.EvidenceStream, topic, 0, 1000))(t)
	require.Len(t, recs, 50)
	for i, r := range recs {
		require.Equal(t, fmt.Sprint("id-", i), r.ID)
		require.Equal(t, strconv.Itoa(i), string(r.Data))
		require.Equal(t, topic, r.Subject)
	}
	require.NoError(t, p.Publish(topic))
	require.NoError(t, p.Close())
	require.NoError(t, n.Ready(t.Context()), "the connection is not the publisher's")
}

func TestPublisherErrors(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{MaxPayload: 4 << 10}, Config{AttemptTimeout: 200 * time.Millisecond})
	p := NewPublisher(n.Broker)
	p.timeout = 300 * time.Millisecond
	require.ErrorIs(t, p.Publish("weir.dead.t.http.a", message.NewMessage("big", make([]byte, 5<<10))), fault.ErrTooLarge)
	require.ErrorIs(t, p.Publish("nobody.takes.this", message.NewMessage("x", nil)), fault.ErrUnavailable)
	require.ErrorIs(t, p.Publish("nobody.takes.this", message.NewMessage("", nil)), fault.ErrUnavailable)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := message.NewMessage("gone", nil)
	m.SetContext(ctx)
	require.ErrorIs(t, p.Publish("nobody.takes.this", m), fault.ErrUnavailable)

	_, last, err := n.Bounds(t.Context(), schemas.DeadStream)
	require.NoError(t, err)
	require.Zero(t, last)
}

// TestEvidenceCannotBeRemoved, and what an embedded server remembers of records it reads back at
// each start; on a cluster a worker that was given up may write for longer.
func TestEvidenceCannotBeRemoved(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	require.NoError(t, NewPublisher(n.Broker).Publish("weir.evidence.t.k.e.a", message.NewMessage("1", nil)))
	s := must(n.js.Stream(t.Context(), schemas.EvidenceStream))(t)
	require.Error(t, s.DeleteMsg(t.Context(), 1))
	require.Error(t, s.Purge(t.Context()))
	require.Equal(t, time.Minute, s.CachedInfo().Config.Duplicates)
	require.Equal(t, 10*time.Minute, (&Broker{}).evidenceStream().Duplicates)
	_, last, err := n.Bounds(t.Context(), schemas.EvidenceStream)
	require.NoError(t, err)
	require.EqualValues(t, 1, last)
}
