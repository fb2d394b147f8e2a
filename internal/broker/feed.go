package broker

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/failpoint"
)

// lastCall is how long handlers get after their contexts were canceled.
const lastCall = time.Second

// feed is one subscribed topic: the messages this process holds of it, and the
// pulls that bring more.
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
	config  jetstream.ConsumerConfig // to make the consumer again
	subject string                   // where pulls are sent
	slots   int
	out     chan *message.Message

	handlers context.Context //nolint:containedctx // what the messages' contexts come from
	cancel   context.CancelFunc
	running  sync.WaitGroup

	sub *nats.Subscription

	mu      sync.Mutex
	held    map[*delivery]struct{} // with a handler or in the backlog
	backlog []*delivery
	busy    int  // slots in use
	asked   int  // messages asked for that have not come
	hold    bool // ask for nothing until the next tick
	heard   time.Time
	looked  uint64 // the stream's newest record when the queue was last looked at; 0: something was given out since
	closing bool

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
		s: s, stream: stream, durable: durable, config: c.CachedInfo().Config,
		subject: "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + durable,
		slots:   cmp.Or(s.cfg.SlotsOf[kindOf(durable)], s.cfg.Slots),
		out:     make(chan *message.Message),
		held:    make(map[*delivery]struct{}),
		ended:   make(chan struct{}), abort: make(chan struct{}),
		halted: make(chan struct{}), gone: make(chan struct{}),
	}
	f.handlers, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return f, nil
}

func (f *feed) start(ctx context.Context) error {
	var err error
	if f.sub, err = f.s.b.nc.Subscribe(f.s.b.nc.NewInbox(), f.receive); err != nil {
		return wrap(err)
	}
	f.sub.SetClosedHandler(func(string) { close(f.halted) })
	// What may come is bounded by what was asked for.
	if err := f.sub.SetPendingLimits(-1, -1); err != nil {
		return wrap(err)
	}
	f.mu.Lock()
	f.pull()
	f.mu.Unlock()
	go f.supervise(ctx.Done()) //nolint:contextcheck // the feed outlives the context it was made with
	return nil
}

// capacity is how many messages are held at most. A pull that was taken for
// lost and was not may bring more; they wait their turn.
func (f *feed) capacity() int { return f.slots + f.s.cfg.Backlog }

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
		f.s.b.cfg.Metrics.Redelivered(kindOf(f.durable))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard, f.looked = now, 0
	f.asked = max(f.asked-1, 0)
	if f.closing {
		d.giveBack()
		return
	}
	f.held[d] = struct{}{}
	if f.busy < f.slots {
		f.busy++
		f.running.Go(func() { f.serve(d) })
	} else {
		f.backlog = append(f.backlog, d)
	}
	f.pull()
}

// serve is one slot: it hands d to a handler, and then what waits behind it.
func (f *feed) serve(d *delivery) {
	for d != nil {
		f.handle(d)
		f.mu.Lock()
		delete(f.held, d)
		d = nil
		if len(f.backlog) > 0 {
			d, f.backlog = f.backlog[0], f.backlog[1:]
		} else {
			f.busy--
		}
		f.pull()
		f.mu.Unlock()
	}
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
		f.mu.Lock()
		f.closing = true
		for _, d := range f.backlog {
			delete(f.held, d)
			d.giveBack()
		}
		f.backlog = nil
		f.mu.Unlock()
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
	f.s.cfg.Logger.WarnContext(f.handlers, "work feed", "component", "broker", "stream", f.stream, "kind", f.durable, "err_kind", kind)
}
