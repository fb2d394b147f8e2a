package memlog

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/broker/access"
	"weir/schemas"
)

// feed gives stored records to the listeners, in the order in which they were stored, on the
// goroutine of an Append. A listener may append: its records come after the one it is looking at.
type feed struct {
	mu        sync.Mutex
	listeners []*listener
	waiting   []schemas.Record
	draining  bool
}

type listener struct {
	filter string
	stored func(schemas.Record)
	lost   func()
}

// queue is called under the lock of the log, which gives the order.
func (f *feed) queue(r schemas.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append(f.waiting, r)
}

// drain delivers what is queued. One caller at a time does; the others leave their records to it.
func (f *feed) drain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.draining {
		return
	}
	f.draining = true
	for len(f.waiting) > 0 {
		r := f.waiting[0]
		f.waiting = f.waiting[1:]
		f.mu.Unlock()
		if subject := liveSubject(r.Subject); subject != "" {
			for _, ln := range f.snapshot() {
				if access.Covers(ln.filter, subject) {
					ln.stored(r)
				}
			}
		}
		f.mu.Lock()
	}
	f.draining = false
}

func (f *feed) snapshot() []*listener {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.listeners)
}

// liveSubject is what a stored message is republished under; empty: it is not.
func liveSubject(subject string) string {
	if rest, ok := strings.CutPrefix(subject, schemas.LogRoot+"."); ok {
		return schemas.LiveLog + "." + rest
	}
	if strings.HasPrefix(subject, schemas.EvidenceRoot+".") {
		return schemas.LiveRoot + strings.TrimPrefix(subject, "weir")
	}
	return ""
}

// Live calls fn for every message that is republished under subject from now on; the record has the
// subject it is stored under. lost may be nil; it is called by Lose alone.
func (l *Log) Live(subject string, fn func(schemas.Record), lost func()) (stop func(), err error) {
	stored := func(r schemas.Record) {
		if l.hooks.Deaf == nil || !l.hooks.Deaf() {
			fn(r)
		}
	}
	f, ln := &l.feed, &listener{filter: subject, stored: stored, lost: lost}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listeners = append(f.listeners, ln)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.listeners = slices.DeleteFunc(slices.Clone(f.listeners), func(l *listener) bool { return l == ln })
	}, nil
}

// Lose tells every listener that it may have missed messages.
func (l *Log) Lose() {
	for _, ln := range l.feed.snapshot() {
		if ln.lost != nil {
			ln.lost()
		}
	}
}

// Notify sends a message that is not stored, which no test listens to.
func (l *Log) Notify(string, []byte) error { return nil }

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

// Due appends the wake messages that are planned for now or before, the earliest first, and returns
// how many there were.
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
	slices.SortFunc(due, func(a, b pending) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.subject, b.subject)) })
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
