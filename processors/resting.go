package processors

import (
	"context"
	"slices"
	"sync"
	"time"

	"weir/internal/ledger"
	"weir/processors/call"
	"weir/schemas"
)

// deferredActions knows which actions this process has put to rest because a traffic rule
// holds them back, so that other rules are heard of at once. It is no more than
// that: whom it forgets is woken when it is due.
type deferredActions struct {
	notify func(context.Context, schemas.Ref) error

	mu       sync.Mutex
	byTenant map[string]*tenantDeferred
	closing  chan struct{} // no more notifications
	waking   sync.WaitGroup
}

// tenantDeferred are a tenant's actions, and until when they rest.
type tenantDeferred struct {
	until map[schemas.Ref]time.Time
	sweep int // how many there are when those that others have woken are looked for
}

// rouseTimeout bounds one round of waking a tenant's actions. Those that it did not
// reach are woken in the next one, which comes between firstPause and lastPause later.
const (
	wakeTimeout = 10 * time.Second
	firstPause  = time.Second
	lastPause   = 10 * time.Second
)

// fewest is how many sleepers are not worth a sweep.
const fewest = 64

func newDeferredActions(nudge func(context.Context, schemas.Ref) error) *deferredActions {
	return &deferredActions{notify: nudge, byTenant: make(map[string]*tenantDeferred), closing: make(chan struct{})}
}

// put notes an action that rests until a time, or wakes it if the rules that
// hold it back have been replaced since they were asked.
func (r *deferredActions) put(ref schemas.Ref, until time.Time, replaced <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-replaced: // by rules that were announced before the action was registered here
		r.wake(map[schemas.Ref]time.Time{ref: until})
		return
	default:
	}
	s := r.byTenant[ref.Tenant]
	if s == nil {
		s = &tenantDeferred{until: make(map[schemas.Ref]time.Time), sweep: fewest}
		r.byTenant[ref.Tenant] = s
	}
	s.until[ref] = until
	s.tidy(time.Now())
}

// tidy drops those that must have woken by now, if there are many.
func (s *tenantDeferred) tidy(now time.Time) {
	if len(s.until) < s.sweep {
		return
	}
	for ref, until := range s.until {
		if until.Before(now) {
			delete(s.until, ref)
		}
	}
	s.sweep = max(fewest, 2*len(s.until))
}

// forget drops an action that is being worked on.
func (r *deferredActions) forget(ref schemas.Ref) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.byTenant[ref.Tenant]; s != nil {
		if delete(s.until, ref); len(s.until) == 0 {
			delete(r.byTenant, ref.Tenant)
		}
	}
}

// wakeTenant wakes a tenant's actions. It does not wait for that.
func (r *deferredActions) wakeTenant(tenant string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.byTenant[tenant]
	if s == nil {
		return
	}
	delete(r.byTenant, tenant)
	r.wake(s.until)
}

// wake nudges actions until each of them is awake, or due. The caller holds the lock.
func (r *deferredActions) wake(until map[schemas.Ref]time.Time) {
	select {
	case <-r.closing:
		return
	default:
	}
	r.waking.Go(func() {
		for pause := firstPause; r.round(until); pause = min(2*pause, lastPause) {
			select {
			case <-r.closing:
				return // they wake when they are due
			case <-time.After(pause):
			}
		}
	})
}

// round nudges actions and drops those that need no more of it. It reports whether
// there are others: the log does not answer, or there are many.
func (r *deferredActions) round(until map[schemas.Ref]time.Time) bool {
	ctx, cancel := context.WithTimeout(context.Background(), wakeTimeout)
	defer cancel()
	for ref, at := range until {
		select {
		case <-r.closing:
			return false // they wake when they are due
		default:
		}
		if time.Now().Before(at) && r.notify(ctx, ref) != nil {
			return true
		}
		delete(until, ref)
	}
	return false
}

// close stops all wake-ups, and waits for the running ones.
func (r *deferredActions) close() {
	r.mu.Lock()
	select {
	case <-r.closing: // a second time
	default:
		close(r.closing)
	}
	r.mu.Unlock()
	r.waking.Wait()
}

// rest gives the slot back and schedules the action's wake-up. It does not write an event while
// another worker's attempt is open: that attempt's fence must hold. A repeated wait for the same
// reason writes nothing more, but its wake-up is scheduled again, because the current message may
// be the former wake-up.
func (p *Pipeline) rest(ctx context.Context, st *ledger.State, w *work, r *call.Deferral) error {
	said := schemas.Waiting{For: r.Reason, Until: r.Until.UTC(), Step: r.Step, Rules: r.Rules}
	if r.Reason != schemas.WaitInFlight && !r.Quiet && !waits(st, said) {
		ev := schemas.Event{Type: schemas.EventWaiting, Waiting: &said}
		if err := p.ledger.Append(ctx, st, ev); err != nil {
			return err
		}
	}
	if err := p.waker.Wake(ctx, st.Ref, r.Until); err != nil {
		return err
	}
	if r.Reason == schemas.WaitRule || r.OnDeferred != nil {
		w.rest = r
	}
	return p.Barrier(ctx) // the ack must not outlive the wake-up
}

// waits reports whether the log says already that an action rests like this. A
// moment more or less is none; it is woken when it is due.
func waits(st *ledger.State, r schemas.Waiting) bool {
	w := st.Waiting
	return w != nil && w.For == r.For && w.Step == r.Step && slices.Equal(w.Rules, r.Rules) && w.Until.Sub(r.Until).Abs() < time.Second
}
