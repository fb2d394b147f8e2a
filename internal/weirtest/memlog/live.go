package memlog

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/schemas"
)

// feed hands stored records to the listeners, in the order in which they were
// stored, on the goroutine of whoever appends. A listener may append: its
// records come after the one it is looking at.
type feed struct {
	mu        sync.Mutex
	listeners []*listener
	waiting   []schemas.Record
	draining  bool
}

type listener struct {
	filter string
	fn     func(schemas.Record)
	lost   func()
	core   func(subject string, data []byte)
}

// queue is called under the lock of the log, which gives the order.
func (f *feed) queue(r schemas.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append(f.waiting, r)
}

// drain delivers what is queued. One caller at a time does; the others leave
// their records to it.
func (f *feed) drain() {
	f.mu.Lock()
	if f.draining {
		f.mu.Unlock()
		return
	}
	f.draining = true
	for len(f.waiting) > 0 {
		r := f.waiting[0]
		f.waiting = f.waiting[1:]
		subject, republished := liveSubject(r.Subject)
		listeners := slices.Clone(f.listeners)
		f.mu.Unlock()
		for _, ln := range listeners {
			if republished && ln.fn != nil && Match(ln.filter, subject) {
				ln.fn(r)
			}
		}
		f.mu.Lock()
	}
	f.draining = false
	f.mu.Unlock()
}

func (f *feed) add(ln *listener) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listeners = append(f.listeners, ln)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.listeners = slices.DeleteFunc(slices.Clone(f.listeners), func(l *listener) bool { return l == ln })
	}
}

func (f *feed) snapshot() []*listener {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.listeners)
}

// liveSubject is what a stored message is republished under.
func liveSubject(subject string) (string, bool) {
	switch {
	case strings.HasPrefix(subject, schemas.LogRoot+"."):
		return schemas.LiveLog + strings.TrimPrefix(subject, schemas.LogRoot), true
	case strings.HasPrefix(subject, schemas.EvidenceRoot+"."):
		return schemas.LiveRoot + strings.TrimPrefix(subject, "weir"), true
	default:
		return "", false
	}
}

// Live calls fn for every message that is republished under subject from now
// on; the record has the subject it is stored under. lost may be nil; it is
// called by Lose alone.
func (l *Log) Live(subject string, fn func(schemas.Record), lost func()) (stop func(), err error) {
	return l.feed.add(&listener{filter: subject, fn: fn, lost: lost}), nil
}

// Lose tells every listener that it may have missed messages.
func (l *Log) Lose() {
	for _, ln := range l.feed.snapshot() {
		if ln.lost != nil {
			ln.lost()
		}
	}
}

// Listen calls fn for every message that Notify sends under subject.
func (l *Log) Listen(subject string, fn func(subject string, data []byte)) (stop func(), err error) {
	return l.feed.add(&listener{filter: subject, core: fn}), nil
}

// Notify sends a message that is not stored; nobody may be listening.
func (l *Log) Notify(subject string, data []byte) error {
	for _, ln := range l.feed.snapshot() {
		if ln.core != nil && Match(ln.filter, subject) {
			ln.core(subject, data)
		}
	}
	return nil
}

// pending is the one wake-up an action may have.
type pending struct {
	at      time.Time
	subject string
}

// Wake plans a wake message for an action. A newer plan replaces the older.
func (l *Log) Wake(_ context.Context, ref schemas.Ref, at time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wakes[l.layout.Schedule(ref)] = pending{at: at, subject: l.layout.Subject(ref, schemas.SectionWake)}
	return nil
}

// Due appends the wake messages that are planned for now or before, the
// earliest first, and returns how many there were.
func (l *Log) Due(ctx context.Context, now time.Time) (int, error) {
	l.mu.Lock()
	var due []pending
	for key, p := range l.wakes {
		if !p.at.After(now) {
			due = append(due, p)
			delete(l.wakes, key)
		}
	}
	l.mu.Unlock()
	slices.SortFunc(due, func(a, b pending) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return strings.Compare(a.subject, b.subject)
	})
	for i, p := range due {
		if _, err := l.Append(ctx, schemas.Append{Subject: p.subject}); err != nil {
			return i, err
		}
	}
	return len(due), nil
}

// NextWake is when the earliest planned wake-up is due.
func (l *Log) NextWake() (at time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.wakes {
		if !ok || p.at.Before(at) {
			at, ok = p.at, true
		}
	}
	return at, ok
}
