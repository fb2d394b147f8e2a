package tasks

import (
	"context"
	"errors"
	"time"

	"weir/internal/fault"
	"weir/processors/call"
	"weir/schemas"
)

// again is how long a branch that could not be made is left alone.
const again = 5 * time.Second

// open makes the task's branch. Its agent may have begun already, and waits.
func (w *work) open(ctx context.Context) error {
	base, err := w.branches.Open(ctx, w.st, w.task.Order, w.task.Branch)
	if err == nil {
		return w.say(ctx, schemas.TaskEvent{What: schemas.TaskOpened, Status: w.task.Status, Base: base})
	}
	var rest *call.Rest
	var later *fault.Later
	var public *fault.Error
	switch {
	case ctx.Err() != nil:
		return err
	case w.st.CancelRequested: // it has come meanwhile
		return nil
	case errors.As(err, &rest), errors.As(err, &later), errors.Is(err, fault.ErrFenced):
		return err
	case errors.As(err, &public):
		return w.close(ctx, schemas.TaskStatusFailed, public.Code, public.Message)
	default:
		return w.rest(again, schemas.WaitDelay)
	}
}
