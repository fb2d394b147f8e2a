package chat

import (
	"context"
	"sync/atomic"
	"time"

	"weir/processors/call"
	"weir/schemas"
)

// lookAtTask is how often a completion looks whether its task has ended: one that is over
// sooner never does.
const lookAtTask = 3 * time.Second

// taskStop is the request to stop of a task's completion: its own, or the end of the task.
type taskStop struct {
	call.Stop

	ctx   context.Context //nolint:containedctx // it is the stop signal, not a scope
	ended atomic.Bool     // the task has
}

func (s *taskStop) Requested() bool                         { return s.Stop.Requested() || s.ctx.Err() != nil }
func (s *taskStop) Done() <-chan struct{}                   { return s.ctx.Done() }
func (s *taskStop) AfterFunc(f func()) (forget func() bool) { return context.AfterFunc(s.ctx, f) }

// withTask stops a completion that a task's holder requested when the task ends: it has no reader
// then, and its remaining tokens would still be paid for. It notices the end within lookAtTask
// after it is on the log. A task that cannot be read, or was dropped, stops nothing. leave must be
// called, and waits.
func (c *Chat) withTask(ctx context.Context, tenant, id string, own call.Stop) (stop call.Stop, leave func()) {
	if id == "" {
		return own, func() {}
	}
	signal, request := context.WithCancel(context.WithoutCancel(ctx))
	forget := own.AfterFunc(request)
	s := &taskStop{Stop: own, ctx: signal}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c.taskEnds(ctx, tenant, id) {
			s.ended.Store(true)
			request()
		}
	}()
	return s, func() {
		forget()
		cancel()
		<-done
		request() // without a reader from here on
	}
}

// taskEnds returns true once a task has ended, and false with its context.
func (c *Chat) taskEnds(ctx context.Context, tenant, id string) bool {
	tick := time.NewTicker(lookAtTask)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
		if st, err := c.ledger.Peek(ctx, tenant, id); err == nil && st.Kind == schemas.KindTask && st.Settled != nil {
			return true
		}
	}
}

// stopped is the end of a completion that must stop, or whose deadline has passed.
func (w *work) stopped(canceled bool) completionEnd {
	if !canceled {
		return bad(schemas.OutcomeExpired, schemas.DeadlineExceeded, statusTimeout, "the completion's time is up")
	}
	message := "the completion was canceled"
	if s, ok := w.stop.(*taskStop); ok && s.ended.Load() {
		message = "the task that asked for the completion has ended"
	}
	return bad(schemas.OutcomeCanceled, schemas.Canceled, statusCanceled, message)
}
