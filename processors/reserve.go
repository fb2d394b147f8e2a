package processors

import (
	"context"
	"errors"
	"sync"
	"time"

	"weir/internal/failpoint"
	"weir/internal/fault"
	"weir/schemas"
)

// executions are the actions that this process executes without a message.
type executions struct {
	ended chan struct{} // closed when the remaining ones must be canceled
	end   func()        // closes it

	mu     sync.Mutex
	closed bool
	busy   sync.WaitGroup

	settled sync.Map // by ref: the actions that were settled lately
}

func newExecutions() *executions {
	e := &executions{ended: make(chan struct{})}
	e.end = sync.OnceFunc(func() { close(e.ended) })
	return e
}

// begin reports whether an execution may begin. If so, the caller calls busy.Done at its end.
func (e *executions) begin() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.busy.Add(1)
	}
	return !e.closed
}

// remember is how long after an execution its message is only acknowledged.
const remember = time.Minute

// note remembers that an execution has settled its action.
func (e *executions) note(ref schemas.Ref) {
	e.settled.Store(ref, true)
	time.AfterFunc(remember, func() { e.settled.Delete(ref) })
}

// settledBy reports, once, whether an execution of this process has settled an action lately, so that
// nothing that goes with its end is missing.
func (e *executions) settledBy(ref schemas.Ref) bool {
	_, ok := e.settled.LoadAndDelete(ref)
	return ok
}

// drain lets no execution begin, and waits for the others.
func (e *executions) drain() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.busy.Wait()
}

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
	release = sync.OnceFunc(func() { p.leave(w) })
	return func(ctx context.Context) {
		defer release()
		if !p.executing.begin() {
			return
		}
		defer p.executing.busy.Done()
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		go func() {
			select {
			case <-p.executing.ended:
				cancel()
			case <-ctx.Done():
			}
		}()
		failpoint.At(failpoint.Fetched, ref.ID)
		p.execute(ctx, ref, w)
	}, release
}

// The log may not show an action that it has just accepted.
const (
	loads     = 5
	loadPause = 200 * time.Millisecond
)

// execute works on a reserved action. Its errors are the next message's to handle.
func (p *Pipeline) execute(ctx context.Context, ref schemas.Ref, w *work) {
	for range loads {
		st, err := p.Admit.Load(ctx, ref)
		if err == nil {
			err = p.work(ctx, st, w)
		}
		switch {
		case err == nil:
			p.executing.note(ref)
			return
		case errors.Is(err, fault.ErrFenced): // what another has written decides what to do now
		case errors.Is(err, fault.ErrUnavailable) && st == nil:
			select {
			case <-time.After(loadPause):
			case <-ctx.Done():
				return
			}
		default:
			return
		}
	}
}
