// Package harness is what the workers of a test stand on: an action log in memory, workers that die where
// a test says so, the messages that they have to take, and a look at what they wrote.
package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

// Handler is a worker as messages reach it.
type Handler interface {
	Handle(ctx context.Context, rec schemas.Record, first bool) error
}

// Delivery is a message that a worker has to take, not before a time.
type Delivery struct {
	Record schemas.Record
	first  bool
	after  time.Time
}

// Bench is a log whose messages of one kind a worker takes. One goroutine drives it, in a synctest
// bubble: Advance lets time pass, and the worker does meanwhile what falls due. A worker that dies is
// replaced by another.
type Bench struct {
	Life

	T       *testing.T
	Log     *memlog.Log
	Ingress *ledger.Ledger // as ingress has the log
	Queue   []Delivery
	Crashes int

	queued sync.Mutex // guards Queue: a timer's goroutine may append to the log meanwhile

	// Context is that of the worker at hand, which Stop ends.
	Context context.Context //nolint:containedctx // it is the life of a worker
	Stop    context.CancelFunc

	hire   func(name string) Handler
	worker Handler
	names  int
}

// New returns a Bench without a worker. before, if set, runs before each append of the worker's; its
// error is the append's.
func New(t *testing.T, kind schemas.Kind, before func(schemas.Append) error) *Bench {
	t.Helper()
	b := &Bench{T: t}
	b.rest(1)
	b.Log = memlog.New(Layout(), time.Now, b.Hooks(func(m schemas.Append) error {
		if before == nil || !b.Busy() {
			return nil
		}
		return before(m)
	}))
	b.Ingress = ledger.New(b.Log, Layout(), time.Now)
	for _, q := range schemas.Queues() {
		stop, err := b.Log.Live(schemas.LiveLog+strings.TrimPrefix(q.Filter(0), schemas.LogRoot), func(r schemas.Record) {
			if ref, _, err := schemas.ParseSubject(r.Subject); err == nil && ref.Kind == kind {
				b.put(Delivery{Record: r, first: true})
			}
		}, nil)
		require.NoError(t, err)
		t.Cleanup(stop)
	}
	return b
}

// Employ sets how a worker is made, and makes the first.
func (b *Bench) Employ(hire func(name string) Handler) {
	b.hire = hire
	b.Replace()
}

// Replace puts another worker in the place of the one at hand.
func (b *Bench) Replace() {
	b.names++
	b.Heal()
	b.Context, b.Stop = context.WithCancel(b.T.Context()) //nolint:gosec // it ends with the test at the latest
	b.worker = b.hire(fmt.Sprintf("w%d", b.names))
}

// Handle has the worker at hand take a message.
func (b *Bench) Handle(rec schemas.Record, first bool) error {
	b.rest(-1)
	defer b.rest(1)
	return b.worker.Handle(b.Context, rec, first)
}

// Begin has a worker take a message that was not delivered yet, on a goroutine of its own, and end puts
// an end to it: the worker can do nothing any more. It returns once the worker has.
func (b *Bench) Begin(w Handler, rec schemas.Record) (end func()) {
	b.rest(-1)
	done := make(chan error, 1)
	ctx, stop := b.Context, b.Stop
	go func() { done <- w.Handle(ctx, rec, true) }()
	return func() {
		b.Kill()
		stop()
		require.Error(b.T, <-done)
		b.rest(1)
	}
}

// Advance lets time pass, and the worker does what is to be done meanwhile.
func (b *Bench) Advance(d time.Duration) {
	b.T.Helper()
	until := time.Now().Add(d)
	for range 10_000 {
		b.Drain()
		next, ok := b.Log.NextWake()
		b.queued.Lock()
		for _, m := range b.Queue {
			if !ok || m.after.Before(next) {
				next, ok = m.after, true
			}
		}
		b.queued.Unlock()
		if !ok || next.After(until) {
			wait(until)
			return
		}
		wait(next)
		_, err := b.Log.Due(b.T.Context(), time.Now())
		require.NoError(b.T, err)
	}
	b.T.Fatal("the workers do not come to rest")
}

// wait is the bubble's: it takes no time.
func wait(until time.Time) { <-time.After(time.Until(until)) }

// Drain has the worker take the messages that are due.
func (b *Bench) Drain() {
	b.T.Helper()
	for m, ok := b.due(); ok; m, ok = b.due() {
		err := b.Handle(m.Record, m.first)
		if b.Dead() {
			b.Crashes++
		}
		if b.Dead() || b.Context.Err() != nil {
			b.Replace()
		}
		if ack, again := fault.Disposition(err); !ack {
			b.put(Delivery{Record: m.Record, after: time.Now().Add(again)})
		}
	}
}

func (b *Bench) put(m Delivery) {
	b.queued.Lock()
	defer b.queued.Unlock()
	b.Queue = append(b.Queue, m)
}

// due takes the first message that is due out of the queue.
func (b *Bench) due() (m Delivery, ok bool) {
	b.queued.Lock()
	defer b.queued.Unlock()
	i := slices.IndexFunc(b.Queue, func(m Delivery) bool { return !m.after.After(time.Now()) })
	if i < 0 {
		return m, false
	}
	m = b.Queue[i]
	b.Queue = slices.Delete(slices.Clone(b.Queue), i, i+1)
	return m, true
}

// Write appends an event to an action as it is on the log now, whoever else writes meanwhile, unless
// decide finds that there is nothing to write. It reports whether it wrote.
func (b *Bench) Write(ref schemas.Ref, decide func(st *ledger.State) (schemas.Event, bool)) (written bool) {
	b.T.Helper()
	for {
		st := Load(b.T, b.Ingress, ref)
		ev, ok := decide(st)
		if !ok {
			return false
		}
		if written = TryAppend(b.T, b.Ingress, st, ev); written {
			return true
		}
	}
}

// Cancel asks an action to stop, by the log alone.
func (b *Bench) Cancel(ref schemas.Ref) {
	b.T.Helper()
	b.Apart(func() {
		b.Write(ref, func(*ledger.State) (schemas.Event, bool) { return schemas.Event{Type: schemas.EventCancel}, true })
	})
}
