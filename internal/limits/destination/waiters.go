package destination

import (
	"context"
	"slices"
	"sync"
	"time"

	"weir/schemas"
)

// mostDeferred is how many actions are remembered for one reason.
const mostDeferred = 10_000

// waiters are the calls of this process that wait for one thing: in a worker's slot, for the
// channel, or as deferred actions, in the order in which they came. An action that is not
// remembered wakes when it is due.
type waiters struct {
	limiter *Limiter

	mu       sync.Mutex
	changed  chan struct{} // closed, and replaced, by notify
	deferred []deferred
}

type deferred struct {
	ref   schemas.Ref
	until time.Time
}

func (l *Limiter) newWaiters() *waiters { return &waiters{limiter: l, changed: make(chan struct{})} }

// since is closed by the next notify. A caller gets it before it looks whether it has to wait.
func (w *waiters) since() chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

// hold has a call wait until a time or the next notify. If that came already when its action is
// deferred, the action is woken at once, unless again says that it is no use.
func (w *waiters) hold(why string, ref schemas.Ref, until time.Time, since chan struct{}, again func() bool) *Held {
	return &Held{For: why, Until: until, Changed: since, Deferred: func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.changed != since && (again == nil || again()) {
			w.wake([]schemas.Ref{ref})
			return
		}
		if len(w.deferred) >= mostDeferred {
			w.deferred = slices.DeleteFunc(w.deferred, w.due)
		}
		if len(w.deferred) < mostDeferred {
			w.deferred = append(w.deferred, deferred{ref, until})
		}
	}}
}

// none reports whether no deferred action is remembered.
func (w *waiters) none() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.deferred) == 0
}

func (w *waiters) due(d deferred) bool { return !d.until.After(time.Now()) }

// notify has all that wait in slots look again, and the first n deferred actions; all with n < 0.
func (w *waiters) notify(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changed)
	w.changed = make(chan struct{})
	var refs []schemas.Ref
	for len(w.deferred) > 0 && n != 0 {
		if first := w.deferred[0]; !w.due(first) {
			refs = append(refs, first.ref)
			n--
		}
		w.deferred = w.deferred[1:]
	}
	w.wake(refs)
}

// wake has actions looked at again soon, without waiting for it.
func (w *waiters) wake(refs []schemas.Ref) {
	if notify := w.limiter.cfg.Notify; notify != nil && len(refs) > 0 {
		w.limiter.background(func(ctx context.Context) {
			for i := 0; i < len(refs) && ctx.Err() == nil; i++ {
				_ = notify(ctx, refs[i]) // after an error it wakes when it is due
			}
		})
	}
}
