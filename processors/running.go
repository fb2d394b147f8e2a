package processors

import (
	"context"
	"sync"

	"weir/processors/call"
	"weir/schemas"
)

// running knows which actions this process works on: a message that is
// delivered again while its handler runs is turned away, and a request to
// cancel finds the handler.
type running struct {
	mu    sync.Mutex
	works map[schemas.Ref]*work
}

// work is one running action. Its context ends when a stop is requested.
type work struct {
	ref     schemas.Ref
	message uint64          // the sequence of the message that it is worked on for
	rest    *call.Deferral  // set where a traffic rule holds the action back, which now rests
	ctx     context.Context //nolint:containedctx // it is the stop signal, not a scope
	cancel  context.CancelFunc
}

func newRunning() *running { return &running{works: make(map[schemas.Ref]*work)} }

// begin registers an action for a message; if it is running already, ok is false and w is that
// work.
func (r *running) begin(ref schemas.Ref, message uint64) (w *work, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.works[ref]; w != nil {
		return w, false
	}
	w = &work{ref: ref, message: message}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	r.works[ref] = w
	return w, true
}

func (r *running) end(ref schemas.Ref) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.works[ref]; w != nil {
		w.cancel()
		delete(r.works, ref)
	}
}

// stop asks an action to stop, if it is running here.
func (r *running) stop(ref schemas.Ref) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.works[ref]; w != nil {
		w.cancel()
	}
}

var _ call.Stop = (*work)(nil)

func (w *work) Requested() bool                         { return w.ctx.Err() != nil }
func (w *work) Done() <-chan struct{}                   { return w.ctx.Done() }
func (w *work) AfterFunc(f func()) (forget func() bool) { return context.AfterFunc(w.ctx, f) }
