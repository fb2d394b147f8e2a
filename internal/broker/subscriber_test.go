package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

var work = Topics(0)[0]

// subscribe opens the new work of partition 0 until the test ends.
func (n *node) subscribe(t *testing.T, cfg SubscriberConfig) (*Subscriber, <-chan *message.Message) {
	t.Helper()
	if cfg.DrainTimeout == 0 {
		cfg.DrainTimeout = 50 * time.Millisecond
	}
	s := NewSubscriber(n.Broker, cfg)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	out := must(s.Subscribe(t.Context(), work))(t)
	return s, out
}

// subscribeAll is subscribe, with what is put behind other work. Of each queue it takes one message
// ahead.
func (n *node) subscribeAll(t *testing.T, cfg SubscriberConfig) <-chan *message.Message {
	t.Helper()
	s, out := n.subscribe(t, cfg)
	overflow := must(s.Subscribe(t.Context(), Topics(0)[2]))(t)
	all := make(chan *message.Message)
	var open sync.WaitGroup
	for _, some := range []<-chan *message.Message{out, overflow} {
		open.Go(func() {
			for m := range some {
				select {
				case all <- m:
				case <-m.Context().Done(): // the test is over
				}
			}
		})
	}
	go func() { open.Wait(); close(all) }()
	return all
}

// next is the next message; a test that waits in vain is killed by go test.
func next(t *testing.T, out <-chan *message.Message) *message.Message {
	t.Helper()
	m, ok := <-out
	require.True(t, ok, "the feed has ended")
	return m
}

// ackAll acks so many messages, of which none comes twice, and returns their sequences. Each must be
// the nth delivery of its record; 0: any.
func ackAll(t *testing.T, out <-chan *message.Message, many int, nth uint64) map[uint64]bool {
	t.Helper()
	seen := map[uint64]bool{}
	for range many {
		m := next(t, out)
		rec, deliveries := RecordOf(m)
		if nth > 0 {
			require.Equal(t, nth, deliveries)
		}
		require.False(t, seen[rec.Seq])
		seen[rec.Seq] = true
		m.Ack()
	}
	return seen
}

// pending is what the consumer has not seen acked.
func (n *node) pending(t *testing.T) int {
	t.Helper()
	info := n.consumer(t)
	return info.NumAckPending + int(info.NumPending)
}

func (n *node) consumer(t *testing.T) *jetstream.ConsumerInfo {
	t.Helper()
	c := must(n.js.Consumer(t.Context(), schemas.LogStream(0), string(schemas.QueueNew)))(t)
	return c.CachedInfo()
}

func (n *node) settled(t *testing.T) {
	t.Helper()
	poll.Until(t, func() bool { return n.pending(t) == 0 })
}

// only is the subscriber's topic of new work.
func (s *Subscriber) only() *feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.feeds {
		if f.queue == schemas.QueueNew {
			return f
		}
	}
	return nil
}

func TestSubscriberDelivers(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	_, out := n.subscribe(t, SubscriberConfig{})
	begun := time.Now()
	seq := n.put(t, claim("a", "hello"))
	n.put(t, event("a", "not work", seq))

	m := next(t, out)
	rec, deliveries := RecordOf(m)
	require.EqualValues(t, 1, deliveries)
	require.WithinDuration(t, begun, rec.Time, time.Minute)
	rec.Time = time.Time{}
	require.Equal(t, schemas.Record{
		Stream: schemas.LogStream(0), Subject: layout.Subject(ref("a"), schemas.SectionAccepted), Seq: seq, Data: []byte("hello"),
	}, rec)
	require.Equal(t, "hello", string(m.Payload))
	require.Equal(t, "WEIR_LOG_0/1", m.UUID)
	require.NoError(t, m.Context().Err())
	m.Ack()
	<-m.Context().Done()
	n.settled(t)
	require.Zero(t, n.metrics.get(&n.metrics.redelivered))
}

func refusesTopics(t *testing.T, n *node) {
	t.Helper()
	s, _ := n.subscribe(t, SubscriberConfig{})
	for _, topic := range []string{"", "x", "/x", "x/", "WEIR_LOG_0/none", "NONE/http"} {
		_, err := s.Subscribe(t.Context(), topic)
		require.Error(t, err, topic)
	}
	require.NoError(t, s.Close())
	_, err := s.Subscribe(t.Context(), work)
	require.ErrorIs(t, err, errClosed)
}

func TestNackComesBackLater(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	_, out := n.subscribe(t, SubscriberConfig{})
	n.put(t, claim("a", "x"))
	m := next(t, out)
	for i, after := range []time.Duration{-1, 500 * time.Millisecond, 0} {
		least := nakDelay
		if after >= 0 {
			least = after
			NakAfter(m, after)
		}
		begun := time.Now()
		m.Nack()
		m = next(t, out)
		require.GreaterOrEqual(t, time.Since(begun), least, "never early")
		_, deliveries := RecordOf(m)
		require.EqualValues(t, i+2, deliveries)
	}
	m.Ack()
	n.settled(t)
	require.Equal(t, 3, n.metrics.get(&n.metrics.redelivered))
}

// TestALargeMessageWaitsWithoutItsData, which its handler receives all the same.
func TestALargeMessageWaitsWithoutItsData(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	s, out := n.subscribe(t, SubscriberConfig{Slots: 1, Backlog: 10})
	n.put(t, claim("a", "held"))
	held := next(t, out)
	large := map[string]string{"b": strings.Repeat("b", waitingData+1), "c": strings.Repeat("c", waitingData+1), "d": "small"}
	for _, id := range []string{"b", "c", "d"} {
		n.put(t, claim(id, large[id]))
	}
	kept := func() (waiting, data int) {
		f := s.only()
		f.slots.mu.Lock()
		defer f.slots.mu.Unlock()
		for d := range f.held {
			data += len(d.record.Data) + len(d.raw.Data)
		}
		return f.waiting, data
	}
	poll.Until(t, func() bool { waiting, _ := kept(); return waiting == 3 })
	_, data := kept()
	require.Equal(t, 2*len("held"+"small"), data)
	held.Ack()
	seen := map[string]string{}
	for range large {
		m := next(t, out)
		rec, _ := RecordOf(m)
		require.Equal(t, string(m.Payload), string(rec.Data))
		ref, _, err := schemas.ParseSubject(rec.Subject)
		require.NoError(t, err)
		seen[ref.ID] = string(m.Payload)
		m.Ack()
	}
	require.Equal(t, large, seen)
	n.settled(t)
}

// TestUrgentGoesFirst: an urgent message starts before older ones, and is still urgent in an
// overflow queue.
func TestUrgentGoesFirst(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	s, out := n.subscribe(t, SubscriberConfig{Slots: 1, Backlog: 1})
	n.put(t, claim("a", "held"))
	held := next(t, out)
	overflowed := func() int { return n.metrics.get(&n.metrics.overflowed) }
	for i, id := range []string{"waits", "first", "waits too"} {
		m := claim(id, id)
		m.Urgent = i > 0
		n.put(t, m)
		poll.Until(t, func() bool { return s.only().oneWaits() && overflowed() == i })
	}
	held.Ack()
	m := next(t, out)
	require.Equal(t, "first", string(m.Payload))
	m.Ack()
	overflow := must(s.Subscribe(t.Context(), Topics(0)[2]))(t)
	for _, urgent := range []bool{false, true} {
		m := next(t, overflow)
		require.Equal(t, urgent, deliveryOf(m).urgent)
		m.Ack()
	}
}

// TestAMoveThatIsNotDurable: the message is not acknowledged, and comes again.
func TestAMoveThatIsNotDurable(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Sync: func() error { return errors.New("the disk is gone") }}, Config{})
	_, out := n.subscribe(t, SubscriberConfig{Slots: 1, Backlog: 1})
	n.put(t, claim("a", "held"))
	held := next(t, out)
	for _, id := range []string{"b", "c"} {
		n.put(t, claim(id, id))
	}
	poll.Until(t, func() bool { return n.metrics.get(&n.metrics.redelivered) > 0 })
	held.Ack()
	ackAll(t, out, 2, 0)
	n.settled(t)
	require.Zero(t, n.metrics.get(&n.metrics.overflowed))
}

// oneWaits reports whether a single message waits, and none is being moved.
func (f *feed) oneWaits() bool {
	f.slots.mu.Lock()
	defer f.slots.mu.Unlock()
	return f.waiting == 1 && f.moving == 0
}

// A slow handler keeps its message, and so do those that wait behind it.
func TestHeartbeatsKeepWhatIsHeld(t *testing.T) {
	t.Parallel()
	const ackWait = 6 * time.Second // two may pass between a beat and the next
	n := open(t, embedded.Config{}, Config{AckWait: ackWait})
	_, slow := n.subscribe(t, SubscriberConfig{Slots: 1, Backlog: 10})
	n.fill(t, 5)
	first := next(t, slow)
	poll.Until(t, func() bool { return n.consumer(t).NumAckPending == 5 })
	// Somebody else would be given whatever times out.
	_, other := n.subscribe(t, SubscriberConfig{})
	select {
	case m := <-other:
		rec, deliveries := RecordOf(m)
		t.Fatalf("record %d came again, delivery %d", rec.Seq, deliveries)
	case <-time.After(2 * ackWait):
	}
	first.Ack()
	ackAll(t, slow, 4, 1)
	n.settled(t)
	require.Zero(t, n.metrics.get(&n.metrics.redelivered))
}

// A worker that dies says nothing; what it held returns after the ack wait.
func TestDeadWorkersMessagesReturn(t *testing.T) {
	t.Parallel()
	const ackWait = 5 * time.Second
	n := open(t, embedded.Config{}, Config{AckWait: ackWait})
	n.fill(t, 3)
	other := must(Open(t.Context(), Config{Server: n.server, Layout: layout, AckWait: ackWait}))(t)
	dying := NewSubscriber(other, SubscriberConfig{DrainTimeout: time.Millisecond})
	out := must(dying.Subscribe(t.Context(), work))(t)
	for range 3 {
		next(t, out)
	}
	other.nc.Close() // as a killed process does

	_, mine := n.subscribe(t, SubscriberConfig{})
	ackAll(t, mine, 3, 2)
	n.settled(t)
	require.Equal(t, 3, n.metrics.get(&n.metrics.redelivered))
	require.NoError(t, dying.Close())
	other.Close(t.Context())
}

func TestCloseHandsOverAndWaits(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{AckWait: time.Hour}) // nothing returns by itself
	s, out := n.subscribe(t, SubscriberConfig{Slots: 2, Backlog: 10, DrainTimeout: time.Hour})
	n.fill(t, 8)
	running := next(t, out)

	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = s.Close()
	}()
	// What has not begun goes to another at once.
	_, other := n.subscribe(t, SubscriberConfig{})
	seen := ackAll(t, other, 7, 0)
	rec, _ := RecordOf(running)
	require.False(t, seen[rec.Seq])
	select {
	case <-closed:
		t.Fatal("a handler still runs")
	default:
	}
	require.NoError(t, running.Context().Err(), "a running handler is not disturbed")
	running.Ack()
	<-closed
	_, ok := <-out
	require.False(t, ok)
	n.settled(t)
	require.NoError(t, s.Close(), "twice is once")
}

func TestCloseGivesUpOnAHandler(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{AckWait: 5 * time.Second})
	s, out := n.subscribe(t, SubscriberConfig{DrainTimeout: 20 * time.Millisecond})
	n.put(t, claim("a", "x"))
	m := next(t, out)
	require.NoError(t, s.Close())
	require.ErrorIs(t, m.Context().Err(), context.Canceled)
	m.Ack() // too late, and harmless
	_, other := n.subscribe(t, SubscriberConfig{})
	again := next(t, other)
	_, deliveries := RecordOf(again)
	require.EqualValues(t, 2, deliveries)
	again.Ack()
}

func TestOddMessagesHarmNobody(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	s, out := n.subscribe(t, SubscriberConfig{})
	// Neither a reply subject nor a status that no server sends stops a feed.
	f := s.only()
	f.receive(&nats.Msg{Reply: "nonsense", Sub: f.sub})
	f.receive(&nats.Msg{Reply: "$JS.ACK.x", Sub: f.sub})
	f.receive(&nats.Msg{Header: nats.Header{"Status": {"408"}, "Nats-Pending-Messages": {"many"}}})
	subject := func(id string) string { return layout.Subject(ref(id), schemas.SectionAccepted) }
	for _, m := range []*nats.Msg{
		{Subject: subject("a"), Data: []byte{0xff, 0x00, '{'}},
		{Subject: subject("b"), Header: nats.Header{"Twice": {"one", "two"}, "Empty": {""}, "Nats-Msg-Id": {"id-b", "id-c"}}},
		{Subject: subject("c"), Header: nats.Header{"Status": {"409"}, "Description": {"Consumer Deleted"}}},
	} {
		must(n.store(t.Context(), m))(t)
	}
	got := map[string]*message.Message{}
	for range 3 {
		m := next(t, out)
		rec, _ := RecordOf(m)
		got[rec.Subject] = m
		m.Ack()
	}
	require.Equal(t, []byte{0xff, 0x00, '{'}, []byte(got[subject("a")].Payload))
	rec, _ := RecordOf(got[subject("b")])
	require.Equal(t, "id-b", rec.ID)
	n.settled(t)
}

func TestConsumerIsRestored(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	_, out := n.subscribe(t, SubscriberConfig{})
	n.put(t, claim("a", "x"))
	next(t, out).Ack()
	n.settled(t)
	require.NoError(t, n.js.DeleteConsumer(t.Context(), schemas.LogStream(0), string(schemas.QueueNew)))
	n.put(t, claim("b", "y"))
	// The consumer begins anew with the oldest message.
	seen := map[string]bool{}
	for len(seen) < 2 {
		m := next(t, out)
		seen[string(m.Payload)] = true
		m.Ack()
	}
	n.settled(t)
}

// A pull whose answers go astray is noticed by its silence.
func TestSilentPullIsAskedAnew(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	s, out := n.subscribe(t, SubscriberConfig{})
	n.put(t, claim("a", "x"))
	next(t, out).Ack()
	f := s.only()
	// As if all that was asked for had been lost on the way. The pull is alive in truth, and its
	// next heartbeat may undo the pretence: so again and again.
	poll.Until(t, func() bool {
		f.slots.mu.Lock()
		f.asked = pullMost
		f.heard = time.Now().Add(-time.Hour)
		f.slots.mu.Unlock()
		return n.metrics.get(&n.metrics.missed) > 0
	})
	n.put(t, claim("b", "y"))
	next(t, out).Ack()
}

// TestPositionOfAQuietQueue: the position stays before a message that is held or was given back. Then
// it moves past what the log has taken since, and nothing that comes later is left out or comes twice.
func TestPositionOfAQuietQueue(t *testing.T) {
	t.Parallel()
	const others, check = 40, 500 * time.Millisecond
	n := open(t, embedded.Config{}, Config{})
	_, out := n.subscribe(t, SubscriberConfig{PositionEvery: check, PositionLag: 1})
	position := func() uint64 { return n.consumer(t).Delivered.Stream }
	for _, id := range []string{"a", "b", "c"} {
		last := n.put(t, claim(id, id))
		first, m, times := last, next(t, out), uint64(1)
		for range others { // no work of this queue
			last = n.put(t, event(id, "x", last))
		}
		if id == "a" {
			require.Equal(t, first, position(), "it is held")
			NakAfter(m, 3*check)
			m.Nack()
			m, times = next(t, out), 2 // some checks later
		}
		rec, deliveries := RecordOf(m)
		require.Equal(t, first, rec.Seq)
		require.Equal(t, times, deliveries, "the server has not forgotten that it gave it out")
		m.Ack()
		n.settled(t)
		poll.Until(t, func() bool { return position() == last })
	}
	n.put(t, claim("d", "d"))
	ackAll(t, out, 1, 1)
	require.Equal(t, 1, n.metrics.get(&n.metrics.redelivered))
}

// TestNobodyWaitsBehindWhatCannotBegin: behind a thousand actions that hang, each tenant's and each
// kind's first begins at once; and what had to wait comes when there is room, once.
func TestNobodyWaitsBehindWhatCannotBegin(t *testing.T) {
	t.Parallel()
	const many = 1000
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	out := n.subscribeAll(t, SubscriberConfig{Slots: 16, Shared: true})
	put := func(tenant string, kind schemas.Kind, id string) {
		n.put(t, claimOf(schemas.Ref{Tenant: tenant, Kind: kind, ID: id}, tenant))
	}
	for i := range many {
		put("heavy", schemas.KindHTTP, fmt.Sprintf("a%d", i))
	}
	put("light", schemas.KindHTTP, "b")
	put("heavy", schemas.KindRun, "c")
	seen := map[string]int{}
	var held []*message.Message
	take := func() {
		m := next(t, out)
		rec, _ := RecordOf(m)
		ref, _, err := schemas.ParseSubject(rec.Subject)
		require.NoError(t, err)
		seen[ref.ID]++
		held = append(held, m)
	}
	for seen["b"] == 0 || seen["c"] == 0 {
		take()
	}
	require.LessOrEqual(t, len(held), 14+2)
	for len(seen) < many+2 {
		for _, m := range held {
			m.Ack()
		}
		held = held[:0]
		take()
	}
	for _, m := range held {
		m.Ack()
	}
	for id, times := range seen {
		require.Equal(t, 1, times, id)
	}
	require.Greater(t, n.metrics.get(&n.metrics.overflowed), many/2)
	n.settled(t)
}

// TestUnhandledKinds are left to other workers.
func TestUnhandledKinds(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	_, without := n.subscribe(t, SubscriberConfig{Unhandled: map[schemas.Kind]bool{schemas.KindPush: true}})
	_, with := n.subscribe(t, SubscriberConfig{})
	n.put(t, claimOf(schemas.Ref{Tenant: "t", Kind: schemas.KindPush, ID: "p"}, "accepted"))
	select {
	case <-without:
		t.Fatal("it cannot perform it")
	case m := <-with:
		m.Ack()
	}
	n.settled(t)
}
