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

// deferredActions has the actions that this process has deferred because of a traffic rule, by
// tenant, with their wake-up times, so that a change of the rules wakes them at once.
type deferredActions struct {
	notify func(context.Context, schemas.Ref) error

	mu     sync.Mutex
	of     map[string]map[schemas.Ref]time.Time
	life   context.Context //nolint:containedctx // ends with close: no more notifications
	end    context.CancelFunc
	waking sync.WaitGroup
}

// A notification that the log does not accept within wakeTimeout is repeated, between firstPause
// and lastPause later.
const (
	wakeTimeout = 10 * time.Second
	firstPause  = time.Second
	lastPause   = 10 * time.Second
)

// sweep is how many entries put examines. It is more than put adds, so due actions do not pile up.
const sweep = 4

func newDeferredActions(notify func(context.Context, schemas.Ref) error) *deferredActions {
	r := &deferredActions{notify: notify, of: map[string]map[schemas.Ref]time.Time{}}
	r.life, r.end = context.WithCancel(context.Background())
	return r
}

// put registers an action that is deferred until a time, or wakes it if its rules have been replaced
// since they were evaluated.
func (r *deferredActions) put(ref schemas.Ref, until time.Time, replaced <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-replaced: // by rules that were announced before the action was registered here
		r.wake(map[schemas.Ref]time.Time{ref: until})
		return
	default:
	}
	of := r.of[ref.Tenant]
	if of == nil {
		of = map[schemas.Ref]time.Time{}
		r.of[ref.Tenant] = of
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
	of[ref] = until
}

// wakeTenant wakes a tenant's actions, without waiting for them.
func (r *deferredActions) wakeTenant(tenant string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wake(r.of[tenant])
	delete(r.of, tenant)
}

// wake notifies the actions that are not due yet. One that has been woken by others loses nothing:
// its message finds it running or ended. The caller holds the lock.
func (r *deferredActions) wake(until map[schemas.Ref]time.Time) {
	if len(until) == 0 || r.life.Err() != nil {
		return
	}
	r.waking.Go(func() {
		for pause := firstPause; ; pause = min(2*pause, lastPause) {
			for ref, at := range until { // in another order each time: one that fails holds up no other for long
				if time.Now().Before(at) && !r.notified(ref) {
					break
				}
				delete(until, ref)
			}
			if len(until) == 0 || !retry.Pause(r.life, pause) { // at the end of life, they wake when they are due
				return
			}
		}
	})
}

// notified notifies one action, and reports whether the log has accepted it.
func (r *deferredActions) notified(ref schemas.Ref) bool {
	ctx, cancel := context.WithTimeout(r.life, wakeTimeout)
	defer cancel()
	return r.notify(ctx, ref) == nil
}

// close stops all wake-ups, and waits for the running ones. It may be called twice.
func (r *deferredActions) close() {
	r.mu.Lock()
	r.end()
	r.mu.Unlock()
	r.waking.Wait()
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
