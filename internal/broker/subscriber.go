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
	// Slots is how many messages of one topic are with handlers at once;
	// default 64. A kind's new actions of both priorities are one topic here.
	Slots int
	// SlotsOf are those of a topic of some kinds, in the place of Slots.
	SlotsOf map[schemas.Kind]int
	// Backlog is how many more are held ready for a slot that gets free; default a quarter
	// of Slots, and one at least. What is held here no other worker can begin.
	Backlog int
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
	// CrowdAfter is how many messages have to wait in a queue for its heaviest tenant to
	// be handed over to a consumer of its own; 0: none is. What was handed over before is
	// worked off all the same.
	CrowdAfter int
	Logger     *slog.Logger // default: the broker's
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
// "<stream>/<consumer>" (WorkTopics), and the consumer must exist. Delivery is
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
	crowds map[string]*crowds // by stream
	crews  map[string]*crew   // of new actions, by stream and kind
	closed bool
	over   chan struct{} // closed with it
	keeps  sync.WaitGroup
}

var _ message.Subscriber = (*Subscriber)(nil)

// NewSubscriber returns a subscriber that borrows b's connection.
func NewSubscriber(b *Broker, cfg SubscriberConfig) *Subscriber {
	return &Subscriber{b: b, cfg: cfg.withDefaults(b), feeds: make(map[*feed]struct{}), crowds: make(map[string]*crowds), crews: make(map[string]*crew), over: make(chan struct{})}
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
	if f.crowds = s.crowdsOf(ctx, stream); f.crowds == nil {
		f.quit()
		return nil, errClosed
	}
	if err := f.start(ctx); err != nil {
		f.quit()
		return nil, err
	}
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.feeds[f] = struct{}{}
	}
	s.mu.Unlock()
	if closed {
		f.close() //nolint:contextcheck // messages that run outlive who subscribed
		<-f.gone
		return nil, errClosed
	}
	f.crowds.add(f)
	return f.out, nil
}

// crowdsOf is what follows the crowds of a stream; nil: the subscriber is closed.
func (s *Subscriber) crowdsOf(ctx context.Context, stream string) *crowds { //nolint:contextcheck // what it starts lives as long as the subscriber
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	k := s.crowds[stream]
	if k == nil {
		k = s.newCrowds(stream)
		s.crowds[stream] = k
		k.start(ctx)
		life := s.b.life
		s.keeps.Go(func() { k.keep(life, s.over) })
	}
	return k
}

// tellCrowds counts the crowds that are served here.
func (s *Subscriber) tellCrowds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, k := range s.crowds {
		n += int(k.serving.Load())
	}
	s.b.cfg.Metrics.Crowds(n)
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
	if !s.closed {
		close(s.over)
	}
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
		f.crew.working.Wait()
	}
	s.keeps.Wait()
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
