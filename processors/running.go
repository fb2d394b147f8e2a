package processors

import (
	"context"
	"errors"
	"sync"
	"time"

	"weir/internal/failpoint"
	"weir/internal/fault"
	"weir/internal/retry"
	"weir/processors/call"
	"weir/schemas"
)

// running has the actions that this process works on: a message that is redelivered while its
// handler runs is returned, and a request to cancel finds the handler. A drain also waits
// for the actions that are executed without a message, see Reserve.
type running struct {
	mu    sync.Mutex
	works map[schemas.Ref]*work

	executing sync.RWMutex       // held by each execution, and for good by drain
	drain     func()             // refuses new executions, and waits for the running ones
	limit     context.Context    //nolint:containedctx // the life of all executions
	end       context.CancelFunc // cancels the remaining executions
	// settled has the refs of the actions that executions have settled lately: none of the end's
	// side effects is missing, so the action's message is only acknowledged.
	settled sync.Map
}

// work is one running action.
type work struct {
	ref      schemas.Ref
	message  uint64         // the sequence of the message that it is worked on for
	deferral *call.Deferral // set if an event earlier than its time can wake the action, which is now deferred
	stop     call.Stop
	cancel   context.CancelFunc // requests the stop
}

func newRunning() *running {
	r := &running{works: make(map[schemas.Ref]*work)}
	r.drain = sync.OnceFunc(r.executing.Lock)
	r.limit, r.end = context.WithCancel(context.Background()) //nolint:gosec // a worker that stops calls it
	return r
}

// begin registers an action for a message; if it is running already, ok is false and w is that
// work.
func (r *running) begin(ref schemas.Ref, message uint64) (w *work, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.works[ref]; w != nil {
		return w, false
	}
	w = &work{ref: ref, message: message}
	w.stop.Context, w.cancel = context.WithCancel(context.Background()) //nolint:fatcontext // each work has its own
	r.works[ref] = w
	return w, true
}

// finish ends the work on an action. A deferred action can be woken only after this: before, its
// message would have found it running.
func (p *Pipeline) finish(w *work) {
	p.running.mu.Lock()
	w.cancel()
	delete(p.running.works, w.ref)
	p.running.mu.Unlock()
	switch r := w.deferral; {
	case r == nil:
	case r.OnDeferred != nil:
		r.OnDeferred()
	default:
		p.early.put(w.ref, r)
	}
}

// remember is how long settled has an action.
const remember = time.Minute

// Reserve makes this process execute an action that is about to be accepted, because only this
// process has what the action needs. A message of the action that this process receives meanwhile
// is redelivered later. Execute does what the worker does for a message; if it leaves work undone,
// the worker continues with the next message. Release ends the reservation and may be called twice;
// execute calls it.
func (p *Pipeline) Reserve(ref schemas.Ref) (execute func(context.Context), release func()) {
	w, ok := p.running.begin(ref, 0)
	if !ok {
		return func(context.Context) {}, func() {}
	}
	release = sync.OnceFunc(func() { p.finish(w) })
	return func(ctx context.Context) {
		defer release()
		if !p.running.executing.TryRLock() { // the worker stops
			return
		}
		defer p.running.executing.RUnlock()
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(p.running.limit, cancel)() //nolint:contextcheck // the life of all executions bounds this one
		failpoint.At(failpoint.Fetched, ref.ID)
		for range loads {
			switch st, err := p.work(ctx, w, schemas.Record{}, false, false); {
			case err == nil:
				p.running.settled.Store(ref, true)
				time.AfterFunc(remember, func() { p.running.settled.Delete(ref) })
				return
			case errors.Is(err, fault.ErrFenced): // the event of another writer decides the next step
			case errors.Is(err, fault.ErrUnavailable) && st == nil && retry.Pause(ctx, loadPause):
			default: // the handler of the next message continues
				return
			}
		}
	}, release
}

// The log may not show an action that it has just accepted.
const (
	loads     = 5
	loadPause = 200 * time.Millisecond
)
