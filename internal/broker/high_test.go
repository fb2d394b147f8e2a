package broker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// one takes the next message of either topic.
func one(t *testing.T, normal, high <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case m := <-normal:
		return m
	case m := <-high:
		return m
	case <-time.After(time.Minute):
		require.FailNow(t, "no message came")
		return nil
	}
}

// TestHighPriorityGoesFirst: with one slot, what is hurried goes before what has waited for
// longer, and lets one of eight go first; and the two topics can be closed one by one.
func TestHighPriorityGoesFirst(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	s, _ := n.subscribe(t, SubscriberConfig{})
	require.NoError(t, s.Close())
	s = NewSubscriber(n.Broker, SubscriberConfig{Slots: 1, Backlog: 40})
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	topics := WorkTopics(0, schemas.KindHTTP)
	normal, err := s.Subscribe(t.Context(), topics[0])
	require.NoError(t, err)
	own, cancel := context.WithCancel(t.Context())
	defer cancel()
	high, err := s.Subscribe(own, topics[2])
	require.NoError(t, err)
	for i := range 12 {
		n.put(t, claim(fmt.Sprintf("n%d", i), "x"))
	}
	first := one(t, normal, high)
	for i := range 10 {
		_, err := n.Append(t.Context(), schemas.Append{Subject: layout.Hurry(ref(fmt.Sprintf("h%d", i)))})
		require.NoError(t, err)
	}
	crew := s.crewOf(schemas.LogStream(0), string(schemas.KindHTTP))
	poll.Until(t, func() bool {
		crew.mu.Lock()
		defer crew.mu.Unlock()
		waiting := 0
		for _, f := range crew.feeds {
			waiting += len(f.backlog)
		}
		return waiting == 21
	})
	first.Ack()
	var order strings.Builder
	for range 21 {
		m := one(t, normal, high)
		rec, _ := RecordOf(m)
		who, tail, err := schemas.ParseSubject(rec.Subject)
		require.NoError(t, err)
		require.Equal(t, who.ID[0] == 'h', tail == schemas.TailHigh)
		order.WriteByte(who.ID[0])
		m.Ack()
	}
	require.Equal(t, "hhhhhhhnhhhnnnnnnnnnn", order.String())

	cancel()
	_, open := <-high
	require.False(t, open)
	n.put(t, claim("after", "x"))
	next(t, normal).Ack()
}

// TestAnEarlierVersionsLogGetsTheQueueOfHighPriority: a log that was made before gets the queue of high
// priority when it is opened, which begins with what is hurried from then on or was before.
func TestAnEarlierVersionsLogGetsTheQueueOfHighPriority(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	stream := schemas.LogStream(0)
	require.NoError(t, n.js.DeleteConsumer(t.Context(), stream, "http_high"))
	_, err := n.Append(t.Context(), schemas.Append{Subject: layout.Hurry(ref("a"))})
	require.NoError(t, err)
	n.second(t)
	s := NewSubscriber(n.Broker, SubscriberConfig{})
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	high, err := s.Subscribe(t.Context(), WorkTopics(0, schemas.KindHTTP)[2])
	require.NoError(t, err)
	m := next(t, high)
	rec, _ := RecordOf(m)
	require.Equal(t, layout.Hurry(ref("a")), rec.Subject)
	m.Ack()
	lag, err := n.Lag(t.Context())
	require.NoError(t, err)
	require.Zero(t, lag[schemas.KindHTTP], "what is hurried is counted among the new actions")
}
