package broker

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/schemas"
)

// SubscriberConfig sets a Subscriber's limits.
type SubscriberConfig struct {
	// Slots is how many actions of one kind in a partition run at once, and how many woken ones;
	// default 64.
	Slots int
	// SlotsOf replaces Slots for some kinds.
	SlotsOf map[schemas.Kind]int
	// Backlog is how many messages of a kind, and of a queue, wait here for a slot. No other worker
	// can begin them. Default a quarter of Slots, and one at least; four times Slots if Alone.
	Backlog int
	// Alone: no other process stores or receives messages of this log. New actions are taken when their
	// writes are acknowledged.
	Alone bool
	// Shared keeps slots free for other tenants: no tenant takes all of them.
	Shared bool
	// Unhandled are kinds that this process cannot perform. Their messages are delivered again
	// after half a second, until another worker receives them.
	Unhandled map[schemas.Kind]bool
	// DrainTimeout is how long closing waits for running handlers; default 30 s. Then their
	// contexts are canceled and they have one more second.
	DrainTimeout time.Duration
	// PositionEvery and PositionLag are described at positionEvery and positionLag, their defaults.
	PositionEvery time.Duration
	PositionLag   uint64
}

// backlogShare is the part of the slots whose messages wait beside them: they fill free slots while
// the next pull is on its way.
const backlogShare = 4

// backlogAlone is how many messages wait for each slot of a worker that is alone: no other worker
// could begin them, and a move to an overflow queue costs a write and a read.
const backlogAlone = 4

func (c SubscriberConfig) withDefaults() SubscriberConfig {
	c.Slots = cmp.Or(c.Slots, 64)
	if c.Backlog == 0 && c.Alone {
		c.Backlog = backlogAlone * c.Slots
	}
	c.Backlog = cmp.Or(c.Backlog, max(1, c.Slots/backlogShare))
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 30*time.Second)
	c.PositionEvery = cmp.Or(c.PositionEvery, positionEvery)
	c.PositionLag = cmp.Or(c.PositionLag, positionLag)
	return c
}

// Subscriber is Watermill's subscriber over durable pull consumers. A topic is
// "<stream>/<consumer>", see Topics, and the consumer must exist. Delivery is at least once and in
// no particular order.
//
// Heartbeats keep a message from other workers while this process has it. If the process dies, the
// server delivers it to another worker after the consumer's ack wait. Neither the ack nor the
// heartbeat reliably excludes a second worker: only the guard of an Append does.
type Subscriber struct {
	b   *Broker
	cfg SubscriberConfig

	mu     sync.Mutex
	feeds  []*feed
	slots  map[string]*slotPool // by stream: the queues of a partition share them
	closed bool
}

var _ message.Subscriber = (*Subscriber)(nil)

// NewSubscriber returns a subscriber that borrows b's connection.
func NewSubscriber(b *Broker, cfg SubscriberConfig) *Subscriber {
	return &Subscriber{b: b, cfg: cfg.withDefaults(), slots: make(map[string]*slotPool)}
}

// Topics are the topics of one partition, in the order of schemas.Queues.
func Topics(partition int) []string {
	topics := make([]string, 0, len(schemas.Queues()))
	for _, q := range schemas.Queues() {
		topics = append(topics, schemas.LogStream(partition)+"/"+string(q))
	}
	return topics
}

// Subscribe opens the topic. Each message must be acked or nacked; a nacked one is delivered again
// after a second. A message's context has ctx's values and ends when the message is acked or
// nacked. When ctx ends, the topic is drained as by Close, and contexts of running messages live
// until DrainTimeout.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	stream, durable, _ := strings.Cut(topic, "/")
	c, err := s.b.js.Consumer(ctx, stream, durable)
	if err != nil {
		return nil, fmt.Errorf("consumer %s of %s: %w", durable, stream, wrap(err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.slots[stream] == nil {
		s.slots[stream] = &slotPool{cfg: s.cfg, kinds: map[slotKey]*kindSlots{}}
	}
	f := &feed{
		s: s, stream: stream, queue: schemas.Queue(durable), config: c.CachedInfo().Config,
		subject: "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + durable,
		out:     make(chan *message.Message),
		held:    make(map[*delivery]struct{}),
		ended:   make(chan struct{}), abort: make(chan struct{}), gone: make(chan struct{}),
		slots: s.slots[stream],
	}
	f.handlers, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if f.sub, err = subscribe(s.b.nc, s.b.nc.NewInbox(), f.receive); err != nil { // pulls bound the messages
		f.cancel()
		return nil, err
	}
	if s.cfg.Alone && f.queue == schemas.QueueNew {
		f.early.taken, f.early.due = make(map[uint64]*delivery), true
		s.b.mu.Lock()
		s.b.early[stream] = f
		s.b.mu.Unlock()
	}
	f.slots.mu.Lock()
	f.pull()
	f.slots.mu.Unlock()
	go f.supervise(ctx.Done())
	s.feeds = append(s.feeds, f)
	return f.out, nil
}

// Close drains every topic: messages that have not started go to other workers at once, and Close
// waits for running handlers. The output channels are closed when it returns. It leaves the
// connection alone, and is safe to call twice.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	s.closed = true
	feeds := s.feeds
	s.mu.Unlock()
	for _, f := range feeds {
		f.close()
	}
	for _, f := range feeds {
		<-f.gone
	}
	return nil
}

// Waiting counts the new actions of a tenant that were not delivered to a worker; of all tenants if
// it is empty. It does not count actions that wait for a retry, an answer or their start, but some in
// an overflow queue that were woken. For a tenant it costs a request for each queue with pending
// messages, which the server scans.
func (b *Broker) Waiting(ctx context.Context, tenant string) (n uint64, err error) {
	all, err := b.queues(ctx)
	for _, q := range all {
		pending := q.NumPending
		if pending == 0 || q.name != schemas.QueueNew && !q.name.Overflows() || q.name == schemas.QueueNew && b.taken(q.Stream) {
			continue
		}
		if tenant != "" {
			one, err := b.get(ctx, q.Stream, directGet{Next: q.name.FilterOf(q.partition, tenant), Seq: q.Delivered.Stream + 1, Batch: 1})
			if err != nil {
				return n, err
			}
			pending = min(uint64(len(one.records))+one.left, pending)
		}
		n += pending
	}
	return n, err
}

// taken reports whether this process has taken all new actions of a stream.
func (b *Broker) taken(stream string) bool {
	b.mu.Lock()
	f := b.early[stream]
	b.mu.Unlock()
	if f == nil {
		return false
	}
	f.slots.mu.Lock()
	defer f.slots.mu.Unlock()
	return f.early.current && !f.closing
}

// Lag counts the work in each queue of the whole log: the messages that were not delivered, and
// those that were not acknowledged, including delayed ones. It costs one request per partition. On
// a cluster it returns an error, and no smaller number, if not all consumers answer.
func (b *Broker) Lag(ctx context.Context) (map[schemas.Queue]uint64, error) {
	all, err := b.queues(ctx)
	if err != nil {
		return nil, err
	}
	lag := map[schemas.Queue]uint64{}
	for _, q := range all {
		lag[q.name] += q.NumPending + uint64(max(0, q.NumAckPending))
	}
	return lag, nil
}

// queue is the state of a partition's queue.
type queue struct {
	name      schemas.Queue
	partition int
	*jetstream.ConsumerInfo
}

// queues lists those of all partitions.
func (b *Broker) queues(ctx context.Context) (all []queue, err error) {
	for p := range b.cfg.Layout.Partitions {
		s, err := b.js.Stream(ctx, schemas.LogStream(p))
		if err == nil {
			list := s.ListConsumers(ctx)
			for info := range list.Info() {
				all = append(all, queue{schemas.Queue(info.Name), p, info})
			}
			err = list.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("consumers of %s: %w", schemas.LogStream(p), wrap(err))
		}
	}
	return all, nil
}

// delivery is one message while this process holds it.
type delivery struct {
	raw    *nats.Msg // nil: it was taken before its message
	answer *answer   // to that
	feed   *feed
	record schemas.Record
	tenant string // escaped, as in the subject
	kind   schemas.Kind
	urgent bool
	kept   bool // it does not move to an overflow queue
	again  bool // for it was redelivered
	bare   bool // its data was dropped while it waited
	late   bool // its action may have been taken before it came, by this process or the one before
	count  uint64
	since  time.Time
	nak    time.Duration
}

// arrive reads a message that a consumer delivered. The only error is a malformed reply subject of
// the server: everything else in the message is for its handler to check.
func (f *feed) arrive(m *nats.Msg, now time.Time) (*delivery, error) {
	meta, err := m.Metadata()
	if err != nil {
		return nil, err
	}
	d := newDelivery(f, schemas.Record{
		Stream: meta.Stream, Subject: m.Subject, Seq: meta.Sequence.Stream,
		Time: meta.Timestamp.UTC(), ID: m.Header.Get(jetstream.MsgIDHeader), Data: m.Data,
	}, now)
	d.raw, d.urgent, d.count = m, m.Header.Get(headerUrgent) != "", meta.NumDelivered
	return d, nil
}

func newDelivery(f *feed, rec schemas.Record, now time.Time) *delivery {
	d := &delivery{feed: f, record: rec, count: 1, since: now, nak: nakDelay, kept: f.queue.Overflows()}
	if _, action, _ := schemas.Split(rec.Subject); strings.Count(action, ".") == 2 { // otherwise it has neither tenant nor kind
		tenant, kind, _ := strings.Cut(action, ".")
		kind, _, _ = strings.Cut(kind, ".")
		d.tenant, d.kind = tenant, schemas.Kind(kind)
	}
	return d
}

// waitingData is the most data that a message keeps while it waits for a slot. One that does not move
// to an overflow queue keeps none: there may be many of those.
const waitingData = 16 << 10

// shed drops the data of a waiting message; its handler reads it again.
func (d *delivery) shed() {
	if n := len(d.record.Data); n > waitingData || d.kept && n > 0 {
		d.record.Data, d.bare = nil, true
		if d.raw != nil {
			d.raw.Data = nil
		}
	}
}

type deliveryKey struct{}

func deliveryOf(msg *message.Message) *delivery {
	d, _ := msg.Context().Value(deliveryKey{}).(*delivery)
	return d
}

// RecordOf is the stored record of a message that a Subscriber delivered, and how often it was, this
// time included. The count restarts when the consumer is created again, so it is no count of calls.
func RecordOf(msg *message.Message) (rec schemas.Record, deliveries uint64) {
	d := deliveryOf(msg)
	if d.late { // to be looked at as if it had been delivered
		return d.record, max(d.count, 2)
	}
	return d.record, d.count
}

// NakAfter sets when such a message is delivered again if it is nacked. It must be called before that.
func NakAfter(msg *message.Message, after time.Duration) {
	deliveryOf(msg).nak = max(after, time.Millisecond)
}
