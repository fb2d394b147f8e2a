package chat

import (
	"context"
	"errors"
	"sync"
	"time"

	"weir/processors/call"
	"weir/schemas"
)

// lookAtTask is how often a completion looks whether its task has ended: one that is over
// sooner never does.
const lookAtTask = 3 * time.Second

// errTaskEnded is the cause of a stop that the end of the task has requested.
var errTaskEnded = errors.New("the task has ended")

// withTask stops a completion that a task's holder requested when the task ends: it has no reader
// then, and its remaining tokens would still be paid for. It notices the end within lookAtTask
// after it is on the log. A task that cannot be read, or was dropped, stops nothing. leave must be
// called, and waits.
func (c *Chat) withTask(ctx context.Context, tenant, id string, own call.Stop) (stop call.Stop, leave func()) {
	if id == "" {
		return own, func() {}
	}
	signal, request := context.WithCancelCause(own)
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	looking.Go(func() {
		if c.taskEnds(ctx, tenant, id) {
			request(errTaskEnded)
		}
	})
	return call.Stop{Context: signal}, func() {
		cancel()
		looking.Wait()
		request(nil) // without a reader from here on
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
		return bad(schemas.OutcomeExpired, schemas.DeadlineExceeded, "the completion's time is up")
	}
	message := "the completion was canceled"
	if errors.Is(context.Cause(w.stop), errTaskEnded) {
		message = "the task that asked for the completion has ended"
	}
	return bad(schemas.OutcomeCanceled, schemas.Canceled, message)
}
