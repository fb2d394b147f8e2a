package broker

import (
	"time"

	"weir/schemas"
)

// A worker that is alone on its log takes new actions from the acknowledgements of their writes, as a
// live feed does. The message of such an action, which the server delivers when it is asked to, only
// carries the worker's answer. So these messages are fetched spentMost together, or spentFor after the
// first answer: one by one they would make a fifth of the wake-ups of goroutines in a call.
const (
	spentMost = 64
	spentFor  = 100 * time.Millisecond
)

// local takes a new action that this process has stored. It does not block.
func (f *feed) local(rec schemas.Record, urgent bool) {
	f.slots.mu.Lock()
	defer f.slots.mu.Unlock()
	d := newDelivery(f, rec, time.Now())
	if f.closing || rec.Seq <= f.seen || f.s.cfg.Unhandled[d.kind] {
		return
	}
	d.urgent = urgent
	f.early[rec.Seq] = d
	f.take(d)
}

// meet gives the message that has come to the action that was taken before it, and reports whether
// there is one. The caller holds the slots' mutex.
func (f *feed) meet(m *delivery) bool {
	f.seen = max(f.seen, m.record.Seq)
	d := f.early[m.record.Seq]
	if d == nil {
		f.owed, f.void = max(f.owed-1, 0), max(f.void-1, 0)
		m.late = true
		return false
	}
	delete(f.early, m.record.Seq)
	m.raw.Data = nil // d has it, if it needs it
	if d.raw = m.raw; d.answer != nil {
		f.spent--
		d.send(*d.answer)
	}
	if f.met != nil && len(f.early) == 0 {
		close(f.met)
		f.met = nil
	}
	return true
}

// fetchEarly receives the messages of early actions before the subscription ends, so that the next
// worker gets none that needs no work.
func (f *feed) fetchEarly() {
	f.slots.mu.Lock()
	met := make(chan struct{})
	if n := len(f.early); n > 0 && f.request(n+f.owed, true) == nil {
		f.met = met
	} else {
		close(met)
	}
	f.slots.mu.Unlock()
	select {
	case <-met:
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
	f := d.feed
	if a.again {
		f.owed++ // the message is to be received again, and one that has not come before that
	}
	if d.raw != nil {
		d.send(a)
		return
	}
	d.answer = &a
	if f.spent++; f.spent > 1 {
		return
	}
	since := time.Now()
	f.since = since
	time.AfterFunc(spentFor, func() {
		f.slots.mu.Lock()
		defer f.slots.mu.Unlock()
		if f.spent > 0 && f.since.Equal(since) { // otherwise it was fetched with others
			f.due = true
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
