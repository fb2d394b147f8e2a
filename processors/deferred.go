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
	actions map[<-chan struct{}]map[schemas.Ref]time.Time // due times, by the channel that other rules close
	life    context.Context                               //nolint:containedctx // ends with stop: no more notifications
	end     context.CancelFunc
	waiting sync.WaitGroup
}

const (
	// sweep is how many entries put examines. It is more than put adds, so due actions do not pile up.
	sweep = 4
	// wakeTimeout bounds one notification.
	wakeTimeout = 10 * time.Second
	// wakePause is the time between one that failed and the next.
	wakePause = time.Second
)

func newEarly(notify func(context.Context, schemas.Ref) error) *early {
	e := &early{notify: notify, actions: map[<-chan struct{}]map[schemas.Ref]time.Time{}}
	e.life, e.end = context.WithCancel(context.Background())
	return e
}

// put registers an action. One that has been woken by others loses nothing: its message finds it
// running or ended.
func (e *early) put(ref schemas.Ref, r *call.Deferral) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life.Err() != nil {
		return
	}
	of := e.actions[r.Replaced]
	if of == nil {
		of = map[schemas.Ref]time.Time{}
		e.actions[r.Replaced] = of
		e.waiting.Go(func() { e.wake(r.Replaced, of) })
	}
	examined, now := 0, time.Now()
	for other, at := range of { // drop actions that must be awake by now; the order is random
		if at.Before(now) {
			delete(of, other)
		}
		if examined++; examined == sweep {
			break
		}
	}
	of[ref] = r.Until
}

// wake notifies those of some actions that are not due yet, once their rules are replaced. It repeats
// what the log does not take, until life ends.
func (e *early) wake(replaced <-chan struct{}, until map[schemas.Ref]time.Time) {
	select {
	case <-replaced:
	case <-e.life.Done():
	}
	e.mu.Lock()
	delete(e.actions, replaced)
	e.mu.Unlock()
	for e.life.Err() == nil {
		for ref, at := range until { // in another order each time: one that fails holds up no other for long
			ctx, cancel := context.WithTimeout(e.life, wakeTimeout)
			failed := time.Now().Before(at) && e.notify(ctx, ref) != nil
			cancel()
			if failed {
				break
			}
			delete(until, ref)
		}
		if len(until) == 0 || !retry.Pause(e.life, wakePause) {
			return
		}
	}
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
