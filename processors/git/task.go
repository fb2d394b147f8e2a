package git

import (
	"context"
	"errors"
	"fmt"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/task"
	"weir/schemas"
)

func taskRef(tenant, id string) schemas.Ref {
	return schemas.Ref{Tenant: tenant, Kind: schemas.KindTask, ID: id}
}

// task folds a task. fault.ErrNotFound, fault.ErrGone: there is none any more.
func (p *Pushes) task(ctx context.Context, tenant, id string) (*ledger.State, *task.State, error) {
	st, err := p.cfg.Ledger.Load(ctx, taskRef(tenant, id))
	if err != nil {
		return nil, nil, err
	}
	doc, err := p.cfg.Ledger.Blob(ctx, st.Action.Payload, st.Action.PayloadBlob)
	if err != nil {
		return nil, nil, err
	}
	s, err := task.Fold(st.Action, doc, st.Events)
	return st, s, err
}

// errLook: the log could not be asked about the task.
var errLook = errors.New("the task could not be read")

// mayPush is nil while the client may push: errOver where the task has ended or the
// lease is lost, errBranch where the branch is not the task's, errMany where it was pushed
// to as often as it may be, and errLook where that is not known.
func (p *Pushes) mayPush(ctx context.Context, tenant string, o schemas.PushOrder) error {
	st, s, err := p.task(ctx, tenant, o.TaskID)
	switch {
	case errors.Is(err, fault.ErrNotFound), errors.Is(err, fault.ErrGone):
		return errOver
	case err != nil:
		return fmt.Errorf("%w: %w", errLook, err)
	case !s.Lives(o.Lease, st.Action.Deadline, p.cfg.Now()), o.Key != "" && o.Key != s.Key():
		return errOver
	case s.Order.Repo != o.Repo || o.Ref != schemas.RefOf(s.Branch):
		return errBranch
	case s.Pushes >= schemas.MaxTaskPushes:
		return errMany
	}
	return nil
}

// maxFenced is how often in a row another writer may be first on a task's log.
const maxFenced = 20

// pushed records a push to its branch on a task's log, once, and after the task's end as
// well: the task must show where its branch is.
func (p *Pushes) pushed(ctx context.Context, push *ledger.State, o schemas.PushOrder) error {
	for range maxFenced {
		st, s, err := p.task(ctx, push.Tenant, o.TaskID)
		switch {
		case errors.Is(err, fault.ErrNotFound), errors.Is(err, fault.ErrGone):
			return nil
		case err != nil:
			return err
		case has(st, push.ID): // its writer may have died before the next line
			return p.cfg.Ledger.Notify(ctx, st.Ref)
		}
		err = p.cfg.Ledger.Append(ctx, st, schemas.Event{Type: schemas.EventStatus, Task: &schemas.TaskEvent{
			What: schemas.TaskPushed, Status: s.Status, Lease: o.Lease, Head: o.New, Push: push.ID,
		}})
		switch {
		case err == nil:
			return p.cfg.Ledger.Notify(ctx, st.Ref) // its worker announces it
		case !errors.Is(err, fault.ErrFenced): // that is not the push's own fence
			return &fault.RetryAfter{Cause: err}
		}
	}
	return &fault.RetryAfter{Cause: errBusy}
}

var errBusy = errors.New("the task's log is busy")

func (p *Pushes) knows(ctx context.Context, push *ledger.State, o schemas.PushOrder) (bool, error) {
	st, _, err := p.task(ctx, push.Tenant, o.TaskID)
	switch {
	case errors.Is(err, fault.ErrNotFound), errors.Is(err, fault.ErrGone):
		return false, nil
	case err != nil:
		return false, err
	}
	return has(st, push.ID), nil
}

func has(st *ledger.State, push string) bool {
	for _, ev := range st.Events {
		if ev.Task != nil && ev.Task.What == schemas.TaskPushed && ev.Task.Push == push {
			return true
		}
	}
	return false
}
