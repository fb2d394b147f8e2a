package actions

import (
	"context"
	"errors"
	"time"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/task"
	"weir/schemas"
)

const canceledMessage = "the action was canceled before it was started; nothing was sent"

// Cancel stops an action. A queued one is settled canceled at once, unless it is a task. A running
// one is asked to stop, and its worker writes the end: it may still succeed. A settled one is
// CONFLICT, with its status.
//
// The worker receives the request before it is written, and may have ended the action by then. If
// it ended canceled, that answers the request.
func (c *Control) Cancel(ctx context.Context, tenant, id string) (schemas.ActionStatus, error) {
	told, end := c.stop(ctx, tenant, id)
	if end != nil {
		ctx, done := c.bounded(ctx)
		defer done()
		return statusOf(end), c.survives(ctx)
	}
	st, err := c.do(ctx, tenant, id, func(st *ledger.State) (schemas.Event, error) {
		switch {
		case !told && st.Settled == nil && st.Started && st.Kind != schemas.KindTask:
			told = true // it was begun a moment ago
			c.cfg.Stop(st.Ref)
		case told && st.Settled != nil && st.Settled.Outcome == schemas.OutcomeCanceled:
			return schemas.Event{}, errUnchanged
		}
		return cancel(st, c.cfg)
	})
	s := statusOf(st)
	if err == nil && s.CancelRequested {
		c.cfg.Stop(st.Ref)
	}
	return s, err
}

// A worker that drops its call on a stop ends the action soon. Cancel looks for this end firstLook
// after the stop and then in doubling intervals, before it writes the request. That keeps the log
// short if many actions are canceled at once.
const (
	looks     = 6
	firstLook = 10 * time.Millisecond
)

// stop notifies the worker of a running action to stop, before the action is read, because a
// growing history takes long to read. A task stops by its events alone. end is the action if the
// worker ends it canceled at once.
func (c *Control) stop(ctx context.Context, tenant, id string) (told bool, end *ledger.State) {
	if !schemas.ValidActionID(id) {
		return false, nil
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	for n, pause := 0, firstLook; ; n, pause = n+1, 2*pause {
		st, err := c.ledger.Peek(ctx, tenant, id)
		switch {
		case err != nil:
			return told, nil
		case st.Settled != nil && told && st.Settled.Outcome == schemas.OutcomeCanceled:
			return true, st
		case st.Settled != nil, !st.Started, st.Kind == schemas.KindTask:
			return told, nil
		case !told:
			told = true
			c.cfg.Stop(st.Ref)
		}
		if n == looks || st.Kind != schemas.KindChat && st.Kind != schemas.KindRun {
			return true, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return true, nil
		}
	}
}

// CancelTask asks a task to stop; any other action is NOT_FOUND. A task is never
// settled here, begun or not: that leaves its worker to say everywhere that it has ended.
func (c *Control) CancelTask(ctx context.Context, tenant, id string) (schemas.ActionStatus, error) {
	st, err := c.do(ctx, tenant, id, func(st *ledger.State) (schemas.Event, error) {
		if st.Kind != schemas.KindTask {
			return schemas.Event{}, errNoTask()
		}
		return cancel(st, c.cfg)
	})
	switch {
	case err == nil:
		c.cfg.Stop(st.Ref)
	case isNotFound(err):
		return schemas.ActionStatus{}, errNoTask()
	}
	return statusOf(st), err
}

func errNoTask() error { return fault.New(schemas.NotFound, "there is no task with this id") }

func isNotFound(err error) bool {
	public, ok := errors.AsType[*fault.Error](err)
	return ok && public.Code == schemas.NotFound
}

// decided is how a task ended by its agent's word, or by Weir's own where its time was up or
// it had no branch; nothing undoes either.
func decided(st *ledger.State) (schemas.TaskStatus, bool) {
	t, _ := task.Fold(st.Action, nil, st.Events) // its content does not matter here
	return t.Status, st.Kind == schemas.KindTask && t.Over()
}

// cancel is the event that stops an action. If asked is set, a queued action gets a request as
// well.
func cancel(st *ledger.State, cfg Config) (schemas.Event, error) {
	if status, ok := decided(st); ok && st.Settled == nil {
		return schemas.Event{}, fault.New(schemas.Conflict, "the task has ended already: "+string(status))
	}
	switch {
	case st.Settled != nil:
		return schemas.Event{}, fault.New(schemas.Conflict, "the action has ended already: "+st.Status())
	case st.Damaged != nil:
		return schemas.Event{}, fault.New(schemas.Conflict, "a record of this action cannot be read; a worker will park it and end it")
	case st.Started, st.Kind == schemas.KindTask, cfg.NoEnds:
		if st.CancelRequested {
			return schemas.Event{}, errUnchanged
		}
		return schemas.Event{Type: schemas.EventCancel}, nil
	default:
		settled := &schemas.Settled{Outcome: schemas.OutcomeCanceled, Code: schemas.Canceled, Message: canceledMessage}
		var err error
		if canceled := cfg.Kinds(st.Kind).Canceled; canceled != nil {
			settled.Result, err = canceled(st.Action.Payload, canceledMessage)
		}
		return schemas.Event{Type: schemas.EventSettled, Settled: settled}, err
	}
}
