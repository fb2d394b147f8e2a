package broker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/failpoint"
	"weir/schemas"
)

// lastCall is how long handlers get after their contexts were canceled.
const lastCall = time.Second

// feed is one consumer of a subscribed topic: the messages this process holds of it, and
// the pulls that bring more. A topic has the feed of its queue, and one for each crowd that
// was handed out of that; they share its output and its slots.
//
// It asks for exactly as many messages as it can hold, over one standing
// subscription, instead of using the client's Consume. That one keeps up to a
// whole pull in a buffer where nobody can send heartbeats for them, so that
// behind slow handlers they time out, come again and are handled twice; and
// it can forget to ask for more, which then takes two heartbeats to notice.
type feed struct {
	s       *Subscriber
	stream  string
	durable string
	kind    schemas.Kind
	config  jetstream.ConsumerConfig // to make the consumer again
	subject string                   // where pulls are sent
	out     chan *message.Message

	crowd  *crowd  // whose feed it is; nil: the queue's own
	high   bool    // it is the queue of high priority. A crowd of that is not: who has so much of it has no preference
	crowds *crowds // what was handed out of the queue; nil: it is a crowd's

	handlers context.Context //nolint:containedctx // what the messages' contexts come from
	cancel   context.CancelFunc

	sub *nats.Subscription

	// crew has the mutex of all that follows.
	crew    *crew
	held    map[*delivery]struct{} // with a handler, in the backlog or passing
	backlog []*delivery
	passing []*delivery // what may be a crowd's, see passOver
	passes  bool        // passOver runs
	behind  uint64      // how many messages the consumer had not given out, when it was last heard of
	asked   int         // messages asked for that have not come
	hold    bool        // ask for nothing until the next tick
	heard   time.Time
	looked  uint64 // the stream's newest record when the queue was last looked at; 0: something was given out since
	closing bool

	running *sync.WaitGroup // what is with handlers, of the queue and its crowds

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
		s: s, stream: stream, durable: durable, kind: kindOf(durable), config: c.CachedInfo().Config,
		subject: pullSubject(stream, durable),
		high:    isHigh(durable),
		running: &sync.WaitGroup{},
		out:     make(chan *message.Message),
		held:    make(map[*delivery]struct{}),
		ended:   make(chan struct{}), abort: make(chan struct{}),
		halted: make(chan struct{}), gone: make(chan struct{}),
	}
	f.crew = s.crewOf(stream, durable)
	f.crew.join(f)
	f.handlers, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return f, nil
}

// crewOf is the slots of a topic. New actions and those of high priority share them: which is
// why the one can go before the other.
func (s *Subscriber) crewOf(stream, durable string) *crew {
	kind := kindOf(durable)
	slots := cmp.Or(s.cfg.SlotsOf[kind], s.cfg.Slots)
	if durable != string(kind) && !isHigh(durable) {
		return newCrew(slots)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := stream + "/" + string(kind)
	if s.crews[key] == nil {
		s.crews[key] = newCrew(slots)
	}
	return s.crews[key]
}

func pullSubject(stream, durable string) string {
	return "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + durable
}

// quit is the end of a feed that has not begun.
func (f *feed) quit() {
	f.cancel()
	f.crew.mu.Lock()
	defer f.crew.mu.Unlock()
	f.crew.leave(f)
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
	f.crew.mu.Lock()
	f.pull()
	f.crew.mu.Unlock()
	return nil
}

// capacity is how many messages are held at most. A pull that was taken for
// lost and was not may bring more; they wait their turn. The caller holds the crew's mutex.
func (f *feed) capacity() int {
	held := f.crew.slots + f.s.cfg.Backlog
	if f.passes { // most of what comes is passed over
		held += passRoom
	}
	return held
}

// passRoom is how many more messages a feed asks for while it passes some over.
const passRoom = 512

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
		f.s.b.cfg.Metrics.Redelivered(f.kind)
	}
	if f.crowd != nil {
		d.record.Queue = f.durable
	}
	f.crew.mu.Lock()
	defer f.crew.mu.Unlock()
	f.heard, f.looked = now, 0
	f.behind = d.behind
	f.asked = max(f.asked-1, 0)
	if f.closing {
		d.giveBack()
		return
	}
	f.held[d] = struct{}{}
	if f.crowds != nil && f.crowds.may(f.durable, d.record) {
		f.pass(d)
	} else {
		f.backlog = append(f.backlog, d)
		f.crew.fill()
	}
	f.pull()
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
		f.crew.mu.Lock()
		for _, one := range slices.Clone(f.crew.feeds) {
			if one.ended == f.ended { // its own, and its crowds'
				one.shut()
				f.crew.leave(one)
			}
		}
		f.crew.fill() // slots that this one leaves to others
		f.crew.mu.Unlock()
		close(f.ended)
		go f.drain()
	})
}

// shut gives back what has not begun. The caller holds the crew's mutex.
func (f *feed) shut() {
	f.closing = true
	for _, d := range slices.Concat(f.backlog, f.passing) {
		delete(f.held, d)
		d.giveBack()
	}
	f.backlog, f.passing = nil, nil
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
	f.s.cfg.Logger.WarnContext(f.handlers, "work feed", "component", "broker", "stream", f.stream, "kind", f.durable, "err_kind", kind)
}
