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
	d := newDelivery(f, rec, time.Now())
	d.urgent = urgent
	f.slots.mu.Lock()
	defer f.slots.mu.Unlock()
	if f.closing || rec.Seq <= f.seen || f.s.cfg.Unhandled[d.kind] {
		return
	}
	f.early[rec.Seq] = d
	f.take(d)
}

// meet gives the message that has come to the action that was taken before it, and reports whether
// there is one. The caller holds the slots' mutex.
func (f *feed) meet(m *delivery) bool {
	if m.count == 1 {
		f.seen = max(f.seen, m.record.Seq)
	}
	d := f.early[m.record.Seq]
	if d == nil {
		f.owed, f.void = max(f.owed-1, 0), max(f.void-1, 0)
		return false
	}
	delete(f.early, m.record.Seq)
	if d.raw = m.raw; d.answer != nil {
		f.spent--
		d.reply(*d.answer)
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
	if n := len(f.early); n > 0 && f.request(n+max(0, f.owed), true) == nil {
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

// reply answers a message, or notes the answer until the message comes. It is handed to the connection
// and not waited for: an answer that is lost brings the message again, which every handler must bear
// anyway. The caller holds the slots' mutex.
func (d *delivery) reply(a answer) {
	switch {
	case d.raw == nil:
		d.answer = &a
		d.feed.note(a)
	case a.again:
		_ = d.raw.NakWithDelay(a.after)
	default:
		_ = d.raw.Ack()
	}
}

// note counts an answer that waits for its message. The caller holds the slots' mutex.
func (f *feed) note(a answer) {
	if f.spent++; f.spent == 1 {
		time.AfterFunc(spentFor, func() {
			f.slots.mu.Lock()
			defer f.slots.mu.Unlock()
			f.due = true
			f.pull()
		})
	}
	if a.again {
		f.owed++
	}
}

// refuse has a message delivered again. The caller holds the slots' mutex.
func (d *delivery) refuse(after time.Duration) { d.reply(answer{true, after}) }

// early counts the actions of a tenant, of all if it is empty, whose messages have not come. The tenant is
// as in subjects.
func (b *Broker) early(tenant string) (n uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.local {
		f.slots.mu.Lock()
		for _, d := range f.early {
			if tenant == "" || d.tenant == tenant {
				n++
			}
		}
		f.slots.mu.Unlock()
	}
	return n
}
