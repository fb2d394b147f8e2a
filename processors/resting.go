package processors

import (
	"context"
	"sync"
	"time"

	"weir/schemas"
)

// resting knows which actions this process has put to rest because a traffic rule
// holds them back, so that other rules are heard of at once. It is no more than
// that: whom it forgets is woken when it is due.
type resting struct {
	nudge func(context.Context, schemas.Ref) error

	mu       sync.Mutex
	byTenant map[string]*sleepers
	closed   bool
	rousing  sync.WaitGroup
}

// sleepers are a tenant's actions, and until when they rest.
type sleepers struct {
	until map[schemas.Ref]time.Time
	sweep int // how many there are when those that others have woken are looked for
}

// rouseTimeout bounds the waking of a tenant's actions.
const rouseTimeout = 10 * time.Second

// fewest is how many sleepers are not worth a sweep.
const fewest = 64

func newResting(nudge func(context.Context, schemas.Ref) error) *resting {
	return &resting{nudge: nudge, byTenant: make(map[string]*sleepers)}
}

// put notes an action that rests until a time, or wakes it if the rules that
// hold it back have been replaced since they were asked.
func (r *resting) put(ctx context.Context, ref schemas.Ref, until time.Time, replaced <-chan struct{}) {
	r.mu.Lock()
	s := r.byTenant[ref.Tenant]
	if s == nil {
		s = &sleepers{until: make(map[schemas.Ref]time.Time), sweep: fewest}
		r.byTenant[ref.Tenant] = s
	}
	s.until[ref] = until
	s.tidy(time.Now())
	r.mu.Unlock()
	select {
	case <-replaced: // by rules whose coming was told before the action was here
		_ = r.nudge(ctx, ref) // else it wakes when it is due
	default:
	}
}

// tidy drops those that must have woken by now, if there are many.
func (s *sleepers) tidy(now time.Time) {
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
func (r *resting) forget(ref schemas.Ref) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.byTenant[ref.Tenant]; s != nil {
		if delete(s.until, ref); len(s.until) == 0 {
			delete(r.byTenant, ref.Tenant)
		}
	}
}

// rouse wakes a tenant's actions. It does not wait for that.
func (r *resting) rouse(tenant string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.byTenant[tenant]
	if s == nil || r.closed {
		return
	}
	delete(r.byTenant, tenant)
	r.rousing.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), rouseTimeout)
		defer cancel()
		for ref := range s.until {
			if r.nudge(ctx, ref) != nil {
				return // the log does not answer: they wake when they are due
			}
		}
	})
}

// close ends the waking, and waits for what is under way.
func (r *resting) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.rousing.Wait()
}
