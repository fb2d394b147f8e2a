package tasks

import (
	"context"
	"errors"
	"time"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/task"
	"weir/schemas"
)

type file struct {
	log  *ledger.State
	task *task.State
}

// open reads a task. If it cannot be read completely, the error is a *fault.Terminal: a worker will
// end such a task, and until then its owner is unknown.
func (d *Service) open(ctx context.Context, ref schemas.Ref) (file, error) {
	st, err := d.ledger.Load(ctx, ref)
	if err != nil {
		return file{}, err
	}
	if st.Damaged != nil {
		return file{}, st.Damaged
	}
	payload, err := d.ledger.Blob(ctx, st.Action.Payload, st.Action.PayloadBlob)
	if err != nil {
		return file{}, err
	}
	t, err := task.Fold(st.Action, payload, st.Events)
	if err != nil {
		return file{}, &fault.Terminal{Code: schemas.Poison, Reason: "the payload is no task", Cause: err}
	}
	return file{log: st, task: t}, nil
}

// lives reports whether the holder of a lease may act for the task now.
func (d *Service) lives(f file, lease int) bool {
	return f.task.Lives(lease, f.log.Action.Deadline, d.cfg.Now())
}

// over reports whether the task accepts no more activity.
func (d *Service) over(f file) bool {
	return f.task.Stopped(f.log.Action.Deadline, d.cfg.Now())
}

// maxTries is how often a change is decided anew when others write between. A task
// has few writers, and each of them writes little.
const maxTries = 32

// change reads a task, asks decide for the events, and writes them fenced; if another writer was
// first, it starts over. wrote reports that something of what decide has written changed the task, in
// whichever round. Output changes nothing: its loss loses no state.
func (d *Service) change(ctx context.Context, ref schemas.Ref, decide func(f file) ([]schemas.Event, error)) (f file, wrote bool, err error) {
	for range maxTries {
		if f, err = d.open(ctx, ref); err != nil {
			return file{}, false, err
		}
		events, err := decide(f)
		if err != nil {
			return f, false, err
		}
		for _, ev := range events {
			if err = d.write(ctx, f, ev); err != nil {
				break
			}
			wrote = wrote || ev.Task != nil
		}
		switch {
		case err == nil:
			return f, wrote, nil
		case !errors.Is(err, fault.ErrFenced):
			return file{}, false, unknown(err)
		}
	}
	return file{}, false, errBusy()
}

func errBusy() error {
	return fault.New(schemas.Unavailable, "the task is changing too fast; try again")
}

// write appends one event, with the resulting status of the task.
func (d *Service) write(ctx context.Context, f file, ev schemas.Event) error {
	ev.Time = d.cfg.Now().UTC()
	if ev.Task != nil {
		f.task.Apply(ev)
		ev.Task.Status = f.task.Status
	}
	return d.ledger.Append(ctx, f.log, ev)
}

// storeTimeout bounds one change.
const storeTimeout = 10 * time.Second

// bounded is the time that one change has, the client gone or not.
func (*Service) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
}

// durable waits until what was read or written would survive.
func (d *Service) durable(ctx context.Context) error {
	if err := d.cfg.Barrier(ctx); err != nil {
		return unknown(err)
	}
	return nil
}

// unknown words a write whose fate is not known. Each may be repeated.
func unknown(err error) error {
	switch {
	case errors.Is(err, fault.ErrFull):
		return &fault.Error{Code: schemas.LogFull, Message: "the log is full, nothing was changed; try again later", Cause: err}
	case errors.Is(err, fault.ErrTooLarge):
		return &fault.Error{Code: schemas.PayloadTooLarge, Message: "the text is larger than the log takes, nothing was changed; send a shorter one", Cause: err}
	default:
		return &fault.Error{Code: schemas.Unavailable, Message: "whether the change was stored is unknown; repeat it, it counts once", Cause: err}
	}
}

// unread is the error for a token's holder if the task cannot be read: without the task, the token
// cannot be checked. Public errors pass through.
func unread(err error) error {
	if _, public := errors.AsType[*fault.Error](err); public {
		return err
	}
	if _, poison := errors.AsType[*fault.Terminal](err); poison || errors.Is(err, fault.ErrNotFound) || errors.Is(err, fault.ErrGone) {
		return errToken(err)
	}
	return &fault.Error{Code: schemas.Unavailable, Message: "whose token this is cannot be found out just now; try again", Cause: err}
}

// missing words a task that could not be read, for its people. Public errors pass.
func missing(err error) error {
	_, poison := errors.AsType[*fault.Terminal](err)
	_, public := errors.AsType[*fault.Error](err)
	switch {
	case public:
		return err
	case poison:
		return &fault.Error{Code: schemas.Conflict, Message: "a record of this task cannot be read; a worker will park it and end it", Cause: err}
	case errors.Is(err, fault.ErrNotFound):
		return &fault.Error{Code: schemas.NotFound, Message: "there is no task with this id", Cause: err}
	case errors.Is(err, fault.ErrGone):
		return &fault.Error{Code: schemas.StreamGone, Message: "the history of this task has been dropped", Cause: err}
	default:
		return &fault.Error{Code: schemas.Unavailable, Message: "the log did not answer, nothing was changed; try again", Cause: err}
	}
}

// errToken is the one answer to every token that is not in force: whether it never
// was, its lease is lost or its task has ended is not said.
func errToken(cause error) error {
	return &fault.Error{Code: schemas.Unauthorized, Message: "send one header, Authorization: Bearer and the token of a running task", Cause: cause}
}
