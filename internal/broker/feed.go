package broker

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/failpoint"
	"weir/schemas"
)

// unhandledDelay is when a message that this process cannot handle is delivered again.
const unhandledDelay = 500 * time.Millisecond

// lastCall is how long handlers get after their contexts were canceled.
const lastCall = time.Second

// feed is one consumer of a subscribed topic: the messages this process holds of it, and
// the pulls that bring more.
//
// It asks for a bounded number of messages, over one standing subscription, instead of using the client's Consume. That one keeps up to a
// whole pull in a buffer where nobody can send heartbeats for them, so that
// behind slow handlers they time out, come again and are handled twice; and
// it can forget to ask for more, which then takes two heartbeats to notice.
type feed struct {
	s       *Subscriber
	stream  string
	queue   schemas.Queue
	config  jetstream.ConsumerConfig // to make the consumer again
	subject string                   // where pulls are sent
	out     chan *message.Message

	handlers context.Context //nolint:containedctx // what the messages' contexts come from
	cancel   context.CancelFunc

	sub *nats.Subscription

	// slots has the mutex of all that follows.
	slots   *slotPool
	held    map[*delivery]struct{} // running, waiting, or moving to an overflow queue
	waiting int                    // for a slot
	moving  int                    // to an overflow queue
	asked   int                    // messages asked for that have not come
	hold    bool                   // ask for nothing until the next tick
	heard   time.Time
	looked  uint64 // the stream's newest record when the queue was last looked at; 0: something was given out since
	closing bool

	running sync.WaitGroup // what is with handlers, or on its way

	once   sync.Once
	ended  chan struct{} // closing has begun
	abort  chan struct{} // handlers that still run are left behind
	halted chan struct{} // the subscription has delivered its last
	gone   chan struct{} // the output channel is closed
}

// newFeed finds the topic's consumer.
func newFeed(ctx context.Context, s *Subscriber, stream, durable string) (*feed, error) {
	ctx2, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	c, err := s.b.js.Consumer(ctx2, stream, durable)
	if err != nil {
		return nil, fmt.Errorf("consumer %s of %s: %w", durable, stream, wrap(err))
	}
	f := &feed{
		s: s, stream: stream, queue: schemas.Queue(durable), config: c.CachedInfo().Config,
		subject: pullSubject(stream, durable),
		out:     make(chan *message.Message),
		held:    make(map[*delivery]struct{}),
		ended:   make(chan struct{}), abort: make(chan struct{}),
		halted: make(chan struct{}), gone: make(chan struct{}),
		slots: s.slotsOf(stream),
	}
	f.handlers, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return f, nil
}

// slotsOf returns the slots of a partition, which its queues share.
func (s *Subscriber) slotsOf(stream string) *slotPool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots[stream] == nil {
		s.slots[stream] = newSlotPool(s.cfg)
	}
	return s.slots[stream]
}

func pullSubject(stream, durable string) string {
	return "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + durable
}

func (f *feed) start(ctx context.Context) error {
	if err := f.open(); err != nil {
		return err
	}
	go f.supervise(ctx.Done()) //nolint:contextcheck // the feed outlives the context it was made with
	return nil
}

// open subscribes and asks for the first messages.
func (f *feed) open() error {
	var err error
	if f.sub, err = f.s.b.nc.Subscribe(f.s.b.nc.NewInbox(), f.receive); err != nil {
		return wrap(err)
	}
	f.sub.SetClosedHandler(func(string) { close(f.halted) })
	// What may come is bounded by what was asked for.
	if err := f.sub.SetPendingLimits(-1, -1); err != nil {
		return wrap(err)
	}
	f.slots.mu.Lock()
	f.pull()
	f.slots.mu.Unlock()
	return nil
}

// pullMost is how many messages are requested at most. A message that neither starts nor finds room
// moves to an overflow queue.
const pullMost = 128

// room is how many more messages may come. The caller holds the slots' mutex.
func (f *feed) room() int {
	if f.queue.Overflows() { // its messages wait here
		return f.s.cfg.Backlog - f.waiting - f.asked
	}
	return pullMost - f.moving - f.asked
}

// receive takes what the server sends: messages, and word of pulls.
func (f *feed) receive(m *nats.Msg) {
	now := time.Now()
	if m.Reply == "" {
		f.notice(m, now)
		return
	}
	d, err := arrive(m, now)
	if err != nil {
		f.warn("bad_reply") // no answer is possible; it comes again
		return
	}
	if d.count > 1 {
		f.s.b.cfg.Metrics.Redelivered(d.kind)
	}
	d.feed = f
	f.slots.mu.Lock()
	defer f.slots.mu.Unlock()
	f.heard, f.looked = now, 0
	f.asked = max(f.asked-1, 0)
	if f.closing {
		d.giveBack()
		return
	}
	if f.s.cfg.Unhandled[d.kind] {
		_ = d.raw.NakWithDelay(unhandledDelay)
		f.pull()
		return
	}
	f.held[d] = struct{}{}
	f.waiting++
	slots := f.slots.of(d.kind, f.queue == schemas.QueueWake)
	if excess := slots.add(d, f.queue.Overflows() || d.count > 1); excess != nil {
		excess.feed.overflow(excess)
	}
	f.slots.fill(slots)
	f.pull()
}

// overflow moves a waiting message to an overflow queue. The caller holds the slots' mutex. The message is
// acknowledged once the other is stored: an action that two queues deliver does no harm, one that no queue
// delivers would be lost.
func (f *feed) overflow(d *delivery) {
	f.waiting--
	f.moving++
	f.running.Go(func() {
		_, err := f.s.b.write(f.handlers, schemas.Append{Subject: schemas.Moved(d.record.Subject, schemas.OverflowOf(d.kind)), Urgent: d.urgent})
		if err == nil {
			err = f.s.b.Barrier(f.handlers) // the ack must not outlive it
		}
		if err != nil {
			_ = d.raw.NakWithDelay(f.s.cfg.NakDelay)
		} else {
			d.ack()
			f.s.b.cfg.Metrics.Overflowed(d.kind)
		}
		f.slots.mu.Lock()
		defer f.slots.mu.Unlock()
		delete(f.held, d)
		f.moving--
		f.pull()
	})
}

// handle gives d to whoever reads the output and answers for it.
func (f *feed) handle(d *delivery) {
	ctx, cancel := context.WithCancel(f.handlers)
	defer cancel()
	m := d.message(ctx)
	if m.UUID == "" {
		m.UUID = f.stream + "/" + strconv.FormatUint(d.record.Seq, 10)
	}
	select {
	case <-f.ended: // even where a reader waits too
		d.giveBack()
		return
	default:
	}
	select {
	case f.out <- m:
	case <-f.ended:
		d.giveBack()
		return
	}
	select {
	case <-m.Acked():
		failpoint.At(failpoint.Acking, d.record.Subject)
		d.ack()
	case <-m.Nacked():
		d.refuse(f.s.cfg.NakDelay)
	case <-f.abort: // the handler may still act: the server waits out the ack wait
	}
}

// close begins the drain: nothing new is begun, what has not begun goes back.
func (f *feed) close() {
	f.once.Do(func() {
		f.slots.mu.Lock()
		f.closing = true
		for _, d := range f.slots.remove(f) {
			delete(f.held, d)
			d.giveBack()
		}
		f.waiting = 0
		f.slots.mu.Unlock()
		close(f.ended)
		go f.drain()
	})
}

// drain waits for handlers that run and closes the output.
func (f *feed) drain() {
	defer close(f.gone)
	defer f.s.forget(f)
	defer f.cancel()
	// Draining the subscription tells the server to send no more and gives
	// back what is on its way. A connection that is closed has ended it.
	if f.sub.Drain() == nil {
		await(f.halted, readTimeout)
	}
	idle := make(chan struct{})
	go func() {
		f.running.Wait()
		close(idle)
	}()
	if !await(idle, f.s.cfg.DrainTimeout) {
		f.cancel()
		await(idle, lastCall)
	}
	close(f.abort)
	<-idle
	close(f.out)
	_ = f.s.b.nc.FlushTimeout(readTimeout) // a lost answer brings a message again
}

// await waits for a signal, but no longer than a while.
func await(c <-chan struct{}, most time.Duration) bool {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}

func (f *feed) warn(kind string) {
	f.s.cfg.Logger.WarnContext(f.handlers, "work feed", "component", "broker", "stream", f.stream, "queue", string(f.queue), "err_kind", kind)
}
