package broker

import (
	"time"

	"weir/schemas"
)

// early is of the queue of new actions at a worker that is alone on its log. It takes each action from
// the acknowledgement of its write, as a live feed does. The message of such an action, which the server
// delivers when it is asked to, only carries the worker's answer. So these messages are fetched batchMost
// together, or batchAfter the first answer: one by one they would make a fifth of the wake-ups of
// goroutines in a call.
//
// The slots' mutex guards it.
type early struct {
	// taken has the actions whose messages have not come, by sequence; nil: no action is taken early.
	taken    map[uint64]*delivery
	answered int       // how many of them were
	since    time.Time // when the first of these was
	newest   uint64    // the newest message that has come
	// expected counts the messages that handlers need: refused ones, which come again. inPull is how many
	// there were when the last pull was sent.
	expected, inPull int
	due              bool          // there may be messages that nobody has announced
	current          bool          // since the consumer exists, there was once no further message
	empty            chan struct{} // closed when taken is empty; see fetchTaken
}

const (
	batchMost  = 64
	batchAfter = 100 * time.Millisecond
)

// canWait reports whether no handler needs a message that the server has.
func (e *early) canWait() bool { return e.taken != nil && e.expected == 0 }

// takeEarly takes a new action that this process has stored. It does not block.
func (f *feed) takeEarly(rec schemas.Record, urgent bool) {
	f.slots.mu.Lock()
	defer f.slots.mu.Unlock()
	d := newDelivery(f, rec, time.Now())
	if f.closing || rec.Seq <= f.early.newest || f.s.cfg.Unhandled[d.kind] {
		return
	}
	d.urgent = urgent
	f.early.taken[rec.Seq] = d
	f.take(d)
}

// came gives a message to the action that was taken before it, and reports whether there is one.
func (e *early) came(m *delivery) bool {
	if e.taken == nil {
		return false
	}
	e.newest = max(e.newest, m.record.Seq)
	d := e.taken[m.record.Seq]
	if d == nil {
		e.expected, e.inPull = max(e.expected-1, 0), max(e.inPull-1, 0)
		m.late = true
		return false
	}
	delete(e.taken, m.record.Seq)
	m.raw.Data = nil // d has it, if it needs it
	if d.raw = m.raw; d.answer != nil {
		e.answered--
		d.send(*d.answer)
	}
	if e.empty != nil && len(e.taken) == 0 {
		close(e.empty)
		e.empty = nil
	}
	return true
}

// fetchTaken receives the messages of early actions before the subscription ends, so that the next
// worker gets none that needs no work.
func (f *feed) fetchTaken() {
	empty := make(chan struct{})
	f.slots.mu.Lock()
	if n := len(f.early.taken); n > 0 && f.request(n+f.early.expected, true) == nil {
		f.early.empty = empty
	} else {
		close(empty)
	}
	f.slots.mu.Unlock()
	select {
	case <-empty:
	case <-time.After(lastCall):
	}
}

// answer is what the server hears of a message: it needs no work any more, or it is to be delivered
// again after a time, or to another worker at once.
type answer struct {
	again bool
	after time.Duration
}

// reply answers a message, or notes the answer until the message comes. The caller holds the slots'
// mutex.
func (d *delivery) reply(a answer) {
	e := &d.feed.early
	if a.again {
		e.expected++ // the message is to be received again, and one that has not come before that
	}
	if d.raw != nil {
		d.send(a)
		return
	}
	d.answer = &a
	if e.answered++; e.answered == 1 {
		d.feed.fetchSoon()
	}
}

// fetchSoon has a batch fetched that does not become full. The caller holds the slots' mutex.
func (f *feed) fetchSoon() {
	since := time.Now()
	f.early.since = since
	time.AfterFunc(batchAfter, func() {
		f.slots.mu.Lock()
		defer f.slots.mu.Unlock()
		if f.early.answered > 0 && f.early.since.Equal(since) { // otherwise it was fetched
			f.early.due = true
			f.pull()
		}
	})
}

// send hands an answer to the connection and does not wait for it: one that is lost brings the message
// again, which every handler must bear anyway.
func (d *delivery) send(a answer) {
	if a.again {
		_ = d.raw.NakWithDelay(a.after)
	} else {
		_ = d.raw.Ack()
	}
}

// refuse has a message delivered again. The caller holds the slots' mutex.
func (d *delivery) refuse(after time.Duration) { d.reply(answer{true, after}) }
