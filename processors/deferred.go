package processors

import (
	"context"
	"slices"
	"sync"
	"time"

	"weir/internal/ledger"
	"weir/internal/retry"
	"weir/processors/call"
	"weir/schemas"
)

// early wakes actions that a traffic rule delays when other rules take effect, unless they are due
// before.
type early struct {
	notify func(context.Context, schemas.Ref) error

	mu      sync.Mutex
	actions map[schemas.Ref]bool // that wait for other rules
	life    context.Context      //nolint:containedctx // ends with Stop: no more notifications
	end     context.CancelFunc
	waiting sync.WaitGroup
}

const (
	// mostEarly is how many actions at most are woken before their time. The others wake when they are
	// due.
	mostEarly = 10_000
	// A notification that the log does not accept within wakeTimeout is repeated, between firstPause
	// and lastPause later.
	wakeTimeout = 10 * time.Second
	firstPause  = time.Second
	lastPause   = 10 * time.Second
)

func newEarly(notify func(context.Context, schemas.Ref) error) *early {
	e := &early{notify: notify, actions: map[schemas.Ref]bool{}}
	e.life, e.end = context.WithCancel(context.Background())
	return e
}

// put registers an action. One that has been woken by others loses nothing: its message finds it
// running or ended.
func (e *early) put(ref schemas.Ref, r *call.Deferral) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.actions[ref] || len(e.actions) == mostEarly || e.life.Err() != nil {
		return
	}
	e.actions[ref] = true
	e.waiting.Go(func() {
		ctx, cancel := context.WithDeadline(e.life, r.Until)
		defer cancel()
		select {
		case <-r.Replaced:
		case <-ctx.Done():
		}
		e.mu.Lock()
		delete(e.actions, ref)
		e.mu.Unlock()
		for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, lastPause) {
			limited, done := context.WithTimeout(ctx, wakeTimeout)
			err := e.notify(limited, ref)
			done()
			if err == nil || !retry.Pause(ctx, pause) {
				return
			}
		}
	})
}

// stop ends all wake-ups, and waits for the running ones. It may be called twice.
func (e *early) stop() {
	e.mu.Lock()
	e.end()
	e.mu.Unlock()
	e.waiting.Wait()
}

// deferAction gives the slot back and schedules the action's wake-up. It does not write an event while
// another worker's attempt is open: that attempt's fence must hold. A repeated wait for the same
// reason writes nothing more, but its wake-up is scheduled again, because the current message may
// be the former wake-up.
func (p *Pipeline) deferAction(ctx context.Context, st *ledger.State, w *work, r *call.Deferral) error {
	said := schemas.Waiting{For: r.Reason, Until: r.Until.UTC(), Step: r.Step, Rules: r.Rules}
	if r.Reason != schemas.WaitInFlight && !r.Quiet && !waits(st, said) {
		ev := schemas.Event{Type: schemas.EventWaiting, Waiting: &said}
		if err := p.Ledger.Append(ctx, st, ev); err != nil {
			return err
		}
	}
	if err := p.Waker.Wake(ctx, st.Ref, r.Until); err != nil {
		return err
	}
	if r.Reason == schemas.WaitRule || r.OnDeferred != nil {
		w.deferral = r
	}
	return p.Barrier(ctx) // the ack must not outlive the wake-up
}

// waits reports whether the log already shows this wait. Small differences of the time do not
// count: the action is woken when it is due.
func waits(st *ledger.State, r schemas.Waiting) bool {
	w := st.Waiting
	return w != nil && w.For == r.For && w.Step == r.Step && slices.Equal(w.Rules, r.Rules) && w.Until.Sub(r.Until).Abs() < time.Second
}
