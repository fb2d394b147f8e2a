package processors

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"weir/internal/ledger"
	"weir/processors/call"
	"weir/schemas"
)

// deferredActions has the actions that this process has deferred because of a traffic rule, with
// their wake-up times, so that a change of the rules wakes them at once. A forgotten action is
// woken when it is due.
type deferredActions struct {
	notify func(context.Context, schemas.Ref) error

	mu     sync.Mutex
	of     map[string]*tenantDeferred
	life   context.Context //nolint:containedctx // ends with close: no more notifications
	end    context.CancelFunc
	waking sync.WaitGroup
}

// tenantDeferred are the deferred actions of a tenant.
type tenantDeferred struct {
	until map[schemas.Ref]time.Time
	sweep int // size at which actions woken by others are removed
}

// wakeTimeout bounds one round of wake-ups. The rest is woken in the next round, which starts
// between firstPause and lastPause later.
const (
	wakeTimeout = 10 * time.Second
	firstPause  = time.Second
	lastPause   = 10 * time.Second
)

// fewest is the size below which a sweep is not worth its cost.
const fewest = 64

func newDeferredActions(notify func(context.Context, schemas.Ref) error) *deferredActions {
	r := &deferredActions{notify: notify, of: map[string]*tenantDeferred{}}
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
	d := r.of[ref.Tenant]
	if d == nil {
		d = &tenantDeferred{until: map[schemas.Ref]time.Time{}, sweep: fewest}
		r.of[ref.Tenant] = d
	}
	d.until[ref] = until
	if len(d.until) >= d.sweep { // drop the actions that must be awake by now
		now := time.Now()
		maps.DeleteFunc(d.until, func(_ schemas.Ref, at time.Time) bool { return at.Before(now) })
		d.sweep = max(fewest, 2*len(d.until))
	}
}

// forget drops an action that is running.
func (r *deferredActions) forget(ref schemas.Ref) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := r.of[ref.Tenant]; d != nil {
		if delete(d.until, ref); len(d.until) == 0 {
			delete(r.of, ref.Tenant)
		}
	}
}

// wakeTenant wakes a tenant's actions, without waiting for them.
func (r *deferredActions) wakeTenant(tenant string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := r.of[tenant]; d != nil {
		delete(r.of, tenant)
		r.wake(d.until)
	}
}

// wake notifies actions until each of them is awake, or due. The caller holds the lock.
func (r *deferredActions) wake(until map[schemas.Ref]time.Time) {
	if r.life.Err() != nil {
		return
	}
	r.waking.Go(func() {
		for pause := firstPause; r.round(until); pause = min(2*pause, lastPause) {
			select {
			case <-r.life.Done(): // they wake when they are due
				return
			case <-time.After(pause):
			}
		}
	})
}

// round notifies actions and drops those that need no more of it. It reports whether
// there are others: the log does not answer, or there are many.
func (r *deferredActions) round(until map[schemas.Ref]time.Time) bool {
	ctx, cancel := context.WithTimeout(r.life, wakeTimeout)
	defer cancel()
	for ref, at := range until {
		if time.Now().Before(at) && r.notify(ctx, ref) != nil {
			return true
		}
		delete(until, ref)
	}
	return false
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
