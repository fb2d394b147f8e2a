package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/failpoint"
	"weir/schemas"
)

const (
	// unhandledDelay is when a message that this process cannot handle is delivered again.
	unhandledDelay = 500 * time.Millisecond
	// lastCall is how long handlers may run after their contexts were canceled.
	lastCall = time.Second
	// nakDelay is when a nacked message is delivered again, unless NakAfter sets another time.
	nakDelay = time.Second
	// pullExpiry and pullHeartbeat are how long one pull is valid, and how often the server
	// confirms that. A pull is sent again after two heartbeats of silence.
	pullExpiry    = 10 * time.Second
	pullHeartbeat = time.Second
	// pullMost is how many messages are requested at most. A message that neither starts nor finds
	// room moves to an overflow queue.
	pullMost = 128
)

// feed is the consumer of a subscribed topic: the messages that this process has of it, and the
// pulls for more.
//
// It asks for a bounded number of messages over one subscription. The Consume of nats.go is not
// used: it buffers a whole pull without heartbeats, so that messages time out there behind slow
// handlers and are handled twice, and it sometimes does not ask for more until two heartbeats are
// missed.
type feed struct {
	s       *Subscriber
	stream  string
	queue   schemas.Queue
	config  jetstream.ConsumerConfig // to create the consumer again
	subject string                   // of pulls
	out     chan *message.Message

	handlers context.Context //nolint:containedctx // what the messages' contexts come from
	cancel   context.CancelFunc

	sub *nats.Subscription

	// slots has the mutex of all that follows.
	slots   *slotPool
	held    map[*delivery]struct{} // running, waiting, or moving to an overflow queue
	waiting int                    // for a slot
	moving  int                    // to an overflow queue
	asked   int                    // messages requested and not received
	hold    bool                   // send no pull until the next tick
	heard   time.Time
	closing bool
	early   early

	running sync.WaitGroup // messages with handlers, or moving

	ended chan struct{} // closing has begun
	abort chan struct{} // running handlers are abandoned
	gone  chan struct{} // the output channel is closed
}

// pull requests as many messages as there is room for, but not a few while others are on their way.
// The caller holds the slots' mutex.
func (f *feed) pull() {
	room := pullMost - f.moving - f.asked
	if f.queue.Overflows() { // its messages wait here
		room = f.s.cfg.Backlog - f.waiting - f.asked
	}
	if f.closing || f.hold || room <= 0 || f.asked > 0 && room < pullMost/4 && room < f.s.cfg.Backlog {
		return
	}
	later := f.early.canWait()
	if later && (f.asked > 0 || !f.early.due && f.early.answered < batchMost) {
		return
	}
	if f.asked == 0 {
		f.heard, f.early.inPull = time.Now(), f.early.expected // no pull was pending before
	}
	if f.request(room, later) != nil {
		f.hold = true // no connection: the next tick tries again
		return
	}
	f.asked += room
}

// request requests messages: those that are there, or also those that come later.
func (f *feed) request(n int, there bool) error {
	body := fmt.Appendf(nil, `{"batch":%d,"expires":%d,"idle_heartbeat":%d}`, n, pullExpiry, pullHeartbeat)
	if there {
		body = fmt.Appendf(nil, `{"batch":%d,"no_wait":true}`, n)
	}
	return f.s.b.nc.PublishRequest(f.subject, f.sub.Subject, body)
}

// receive handles messages, and the server's notices about pulls.
func (f *feed) receive(m *nats.Msg) {
	now := time.Now()
	if m.Reply == "" {
		f.notice(m, now)
		return
	}
	d, err := f.arrive(m, now)
	if err != nil {
		f.warn("bad_reply") // it cannot be answered, and is delivered again
		return
	}
	if d.count > 1 {
		f.s.b.cfg.Metrics.Redelivered(d.kind)
	}
	f.slots.mu.Lock()
	defer f.slots.mu.Unlock()
	f.heard = now
	f.asked = max(f.asked-1, 0)
	switch {
	case f.early.came(d):
	case f.closing:
		d.refuse(0)
	case f.s.cfg.Unhandled[d.kind]:
		d.refuse(unhandledDelay)
	default:
		f.take(d)
	}
	f.pull()
}

// take has a message wait for a slot. The caller holds the slots' mutex.
func (f *feed) take(d *delivery) {
	f.held[d] = struct{}{}
	f.waiting++
	slots := f.slots.of(d.kind, f.queue == schemas.QueueWake)
	if excess := slots.add(d); excess != nil {
		excess.feed.overflow(excess)
	}
	f.slots.fill(slots)
}

// notice handles the server's notice about a pull.
func (f *feed) notice(m *nats.Msg, now time.Time) {
	f.slots.mu.Lock()
	defer f.slots.mu.Unlock()
	f.heard = now
	switch code := m.Header.Get("Status"); {
	case code == "100": // a heartbeat
	case code == "404", code == "408", code == "423": // the pull has expired with so many not sent
		n, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
		if err != nil {
			n = f.asked
		}
		f.asked = max(f.asked-n, 0)
		e := &f.early
		e.expected, e.inPull, e.due, e.current = e.expected-e.inPull, 0, false, true
		if !e.canWait() { // otherwise the next answer or tick asks again
			f.pull()
		}
	case code == "409" && strings.EqualFold(m.Header.Get("Description"), "Batch Completed"):
	default: // the consumer has moved, or is gone: another pull would be refused too
		f.asked, f.hold = 0, true
	}
}

// overflow moves a waiting message to an overflow queue. The caller holds the slots' mutex. It
// acknowledges the message after the other is durable: an action that two queues deliver does no
// harm, one that no queue delivers would be lost.
func (f *feed) overflow(d *delivery) {
	f.waiting--
	if d.count > 1 {
		delete(f.held, d)
		d.refuse(f.config.AckWait)
		return
	}
	f.moving++
	f.running.Go(func() {
		_, err := f.s.b.Append(f.handlers, schemas.Append{Subject: schemas.Moved(d.record.Subject, schemas.OverflowOf(d.kind)), Urgent: d.urgent})
		if err == nil {
			err = f.s.b.Barrier(f.handlers)
		}
		if err == nil {
			f.s.b.cfg.Metrics.Overflowed(d.kind)
		}
		f.slots.mu.Lock()
		defer f.slots.mu.Unlock()
		d.reply(answer{err != nil, nakDelay})
		delete(f.held, d)
		f.moving--
		f.pull()
	})
}

// handle sends d to the reader of the output and returns its answer; not ok: there is none, and the
// message is delivered again after the ack wait.
func (f *feed) handle(d *delivery) (reply answer, ok bool) {
	ctx, cancel := context.WithCancel(f.handlers)
	defer cancel()
	if d.bare {
		rec, err := f.s.b.current(ctx, f.stream, directGet{Seq: d.record.Seq})
		if err != nil {
			return answer{true, nakDelay}, true
		}
		d.record.Data = rec.Data
	}
	m := message.NewMessage(f.stream+"/"+strconv.FormatUint(d.record.Seq, 10), d.record.Data) // without headers
	m.SetContext(context.WithValue(ctx, deliveryKey{}, d))
	select {
	case <-f.ended: // even if a reader waits too
		return answer{again: true}, true
	default:
	}
	select {
	case f.out <- m:
	case <-f.ended:
		return answer{again: true}, true
	}
	select {
	case <-m.Acked():
		failpoint.At(failpoint.Acking, d.record.Subject)
		return answer{}, true
	case <-m.Nacked():
		return answer{true, d.nak}, true
	case <-f.abort: // the handler may still act
		return answer{}, false
	}
}

// supervise sends the heartbeats of all held messages, repeats silent pulls, and keeps the position
// of a quiet queue close to the end of the log. It closes the feed when ended is closed.
func (f *feed) supervise(ended <-chan struct{}) {
	beat := time.NewTicker(f.beatEvery())
	defer beat.Stop()
	watch := time.NewTicker(pullHeartbeat)
	defer watch.Stop()
	place := time.NewTicker(f.s.cfg.PositionEvery)
	defer place.Stop()
	newest := uint64(0) // record of the stream, at the last check of the position
	for {
		select {
		case <-beat.C:
			f.beats()
		case <-watch.C:
			f.watch()
		case <-place.C:
			newest = f.advancePosition(newest)
		case <-ended:
			f.close()
			ended = nil // running handlers still need their heartbeats
		case <-f.s.b.life.Done():
			f.close()
			return
		case <-f.gone:
			return
		}
	}
}

// beatEvery is a third of the ack wait: one lost heartbeat does no harm.
func (f *feed) beatEvery() time.Duration { return max(f.config.AckWait/3, time.Millisecond) }

// beats sends the heartbeats of all held messages for which the next round would be too late.
func (f *feed) beats() {
	old := time.Now().Add(-f.beatEvery())
	f.slots.mu.Lock()
	defer f.slots.mu.Unlock()
	for d := range f.held {
		if d.raw != nil && d.since.Before(old) {
			_ = d.raw.InProgress()
		}
	}
}

// watch sends a pull again after two heartbeats of silence, or if the last one was refused. It creates
// the consumer again if that was deleted. A new consumer starts with the oldest message of the stream:
// handlers find finished actions finished.
func (f *feed) watch() {
	f.slots.mu.Lock()
	silent := f.asked > 0 && time.Since(f.heard) > 2*pullHeartbeat
	if silent {
		f.asked, f.hold = 0, true
	}
	again := f.hold && !f.closing
	if f.early.taken != nil && !again {
		f.early.due = true
		f.pull()
	}
	f.slots.mu.Unlock()
	if !again {
		return
	}
	if silent {
		f.s.b.cfg.Metrics.HeartbeatMissed()
		f.warn("heartbeat_missed")
	}
	_, err := f.s.b.js.Consumer(f.handlers, f.stream, string(f.queue))
	kind := "unavailable"
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		kind = "consumer_missing"
		if _, err = f.s.b.js.CreateOrUpdateConsumer(f.handlers, f.stream, f.config); err == nil {
			f.warn("consumer_restored")
			f.slots.mu.Lock()
			f.early.current = false
			f.slots.mu.Unlock()
		}
	}
	if err != nil {
		f.warn(kind)
		return // the next tick tries again
	}
	f.slots.mu.Lock()
	defer f.slots.mu.Unlock()
	f.hold = false
	f.pull()
}

// close begins the drain: nothing new starts, and waiting messages go back.
func (f *feed) close() {
	f.slots.mu.Lock()
	defer f.slots.mu.Unlock()
	if f.closing {
		return
	}
	f.closing = true
	for _, d := range f.slots.remove(f) {
		delete(f.held, d)
		d.refuse(0)
	}
	f.waiting = 0
	close(f.ended)
	go f.drain()
}

// drain waits for running handlers and closes the output.
func (f *feed) drain() {
	defer close(f.gone)
	defer f.cancel()
	cut := time.AfterFunc(f.s.cfg.DrainTimeout, f.cancel)
	abort := time.AfterFunc(f.s.cfg.DrainTimeout+lastCall, func() { close(f.abort) })
	f.fetchTaken()
	drain(f.sub) // messages in transit go back
	f.running.Wait()
	cut.Stop()
	abort.Stop()
	close(f.out)
	_ = f.s.b.nc.FlushTimeout(readTimeout) // after a lost answer the message is delivered again
}

func (f *feed) warn(kind string) {
	f.s.b.cfg.Logger.WarnContext(f.handlers, "work_feed_failed", "component", "broker", "stream", f.stream, "queue", string(f.queue), "err_kind", kind)
}
