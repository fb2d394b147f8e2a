package broker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"weir/schemas"
)

// SubscriberConfig sets a Subscriber's limits.
type SubscriberConfig struct {
	// Slots is how many actions of one kind in a partition are with handlers at once, and how many
	// of those that were woken; default 64.
	Slots int
	// SlotsOf are those of some kinds, in the place of Slots.
	SlotsOf map[schemas.Kind]int
	// Backlog is how many messages wait here for a slot of their kind, and how many of one queue; default a
	// quarter of Slots, and one at least. What waits here no other worker can begin.
	Backlog int
	// Shared says that several tenants use the log: none takes so many slots that the next finds none.
	Shared bool
	// Unhandled are kinds that this process cannot perform. Their messages are delivered again after
	// half a second, until another worker gets them.
	Unhandled map[schemas.Kind]bool
	// DrainTimeout is how long closing waits for handlers that run; default
	// 30 s. After it their contexts are canceled and they get a second more.
	DrainTimeout time.Duration
	// NakDelay is when a message that was refused comes again, unless NakAfter
	// says otherwise; default 1 s.
	NakDelay time.Duration
	// Expiry and Heartbeat are those of one pull; defaults 10 s and 1 s. A
	// pull that was silent for two heartbeats is asked anew.
	Expiry, Heartbeat time.Duration
	// PlaceEvery is how often the place of a quiet queue is looked at, and PlaceBehind
	// how many records it may lie behind the newest before it is moved there; defaults
	// 15 s and 10,000. PlaceEvery must be much longer than the server takes to count a
	// message that it stored.
	PlaceEvery  time.Duration
	PlaceBehind uint64
	Logger      *slog.Logger // default: the broker's
}

// backlogShare is the part of the slots that is held ready beside them: a slot is filled
// while the next pull is on its way.
const backlogShare = 4

func (c SubscriberConfig) withDefaults(b *Broker) SubscriberConfig {
	if c.Slots <= 0 {
		c.Slots = 64
	}
	if c.Backlog <= 0 {
		c.Backlog = max(1, c.Slots/backlogShare)
	}
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{{&c.DrainTimeout, 30 * time.Second}, {&c.NakDelay, time.Second}, {&c.Expiry, pullExpiry}, {&c.Heartbeat, pullHeartbeat}, {&c.PlaceEvery, placeEvery}} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
	if c.PlaceBehind == 0 {
		c.PlaceBehind = placeBehind
	}
	if c.Logger == nil {
		c.Logger = b.cfg.Logger
	}
	return c
}

// Subscriber is Watermill's subscriber over durable pull consumers. A topic is
// "<stream>/<consumer>" (Topics), and the consumer must exist. Delivery is
// at least once and in no promised order: every slot may hold a message.
//
// While a message is held, heartbeats keep it from other workers for as long
// as it takes; when the process dies they end and the server gives it to
// another after the consumer's ack wait. Neither the ack nor the heartbeat
// keeps a second worker out for certain: only the guard of an Append does.
type Subscriber struct {
	b   *Broker
	cfg SubscriberConfig

	mu     sync.Mutex
	feeds  map[*feed]struct{}
	slots  map[string]*slotPool // by stream
	closed bool
}

var _ message.Subscriber = (*Subscriber)(nil)

// NewSubscriber returns a subscriber that borrows b's connection.
func NewSubscriber(b *Broker, cfg SubscriberConfig) *Subscriber {
	return &Subscriber{b: b, cfg: cfg.withDefaults(b), feeds: make(map[*feed]struct{}), slots: make(map[string]*slotPool)}
}

// Subscribe opens the topic. Each message must be acked or nacked; a nack
// brings it back after NakDelay. A message's context has ctx's values and ends
// when the message was acked or nacked. When ctx ends the topic is drained as
// by Close, and contexts of running messages live on until DrainTimeout.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	stream, durable, err := splitTopic(topic)
	if err != nil {
		return nil, err
	}
	f, err := newFeed(ctx, s, stream, durable)
	if err != nil {
		return nil, err
	}
	if err := f.start(ctx); err != nil {
		f.cancel()
		return nil, err
	}
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.feeds[f] = struct{}{}
	}
	s.mu.Unlock()
	if closed {
		f.close()
		<-f.gone
		return nil, errClosed
	}
	return f.out, nil
}

func (s *Subscriber) forget(f *feed) {
	s.mu.Lock()
	delete(s.feeds, f)
	s.mu.Unlock()
}

// Close drains every topic: messages that no handler has begun go back at
// once, and running handlers are waited for. The output channels are closed
// when it returns. It may be called more than once, and leaves the connection
// alone.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	s.closed = true
	feeds := make([]*feed, 0, len(s.feeds))
	for f := range s.feeds {
		feeds = append(feeds, f)
	}
	s.mu.Unlock()
	for _, f := range feeds {
		f.close()
	}
	for _, f := range feeds {
		<-f.gone
		f.slots.working.Wait()
	}
	return nil
}

type deliveryKey struct{}

func deliveryOf(msg *message.Message) *delivery {
	d, _ := msg.Context().Value(deliveryKey{}).(*delivery)
	return d
}

// RecordOf is where a message lies in the log, and how often it has been
// delivered, this time included. The count restarts when its consumer is made
// anew: it says that something went wrong, never how often a call was made. A
// message from elsewhere has neither.
func RecordOf(msg *message.Message) (rec schemas.Record, deliveries uint64) {
	d := deliveryOf(msg)
	if d == nil {
		return schemas.Record{}, 0
	}
	return d.record, d.count
}

// NakAfter sets when the message comes again if it is nacked. It has no
// effect on one that was acked or nacked already.
func NakAfter(msg *message.Message, after time.Duration) {
	if d := deliveryOf(msg); d != nil {
		d.nak.Store(int64(max(after, time.Millisecond)))
	}
}
