package git

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"weir/internal/fault"
	hosted "weir/internal/git"
	"weir/internal/gitwire"
	"weir/internal/ledger"
	"weir/internal/repos"
	"weir/internal/task"
	"weir/processors/call"
	"weir/processors/settle"
	"weir/schemas"
)

// Hosted has the repositories on this node; see internal/git. ErrNoRepo: it has this one not, or none at all.
type Hosted interface {
	Here(id string) error
	Create(ctx context.Context, id, defaultBranch string) (head string, err error)
	Import(ctx context.Context, tenant, id string, from hosted.Source, tell func(schemas.RepoProgress)) (defaultBranch string, err error)
	Remove(ctx context.Context, id string) error
	Branch(ctx context.Context, id, branch, base, taskID string) (oid string, err error)
	Head(ctx context.Context, id, branch string) (oid string, err error)
	ReceivePack(ctx context.Context, id string, p hosted.Push) (gitwire.Report, error)
	PushState(ctx context.Context, id, branch, oid string) (hosted.PushState, error)
}

// Config is what Pushes, Branches and Repos need.
type Config struct {
	Ledger   *ledger.Ledger // of the tasks too
	Recorder *settle.Recorder
	Repos    *repos.Table
	Hosted   Hosted
	// Forward reads from upstreams, and Caller makes the pushes to them, whose Answers are on the log.
	// Adapter returns the adapter of one push; see Forward.Push.
	Forward *Forward
	Caller  *call.Caller
	Answers call.Answers
	Adapter func(PushCall) call.Adapter
	// Spools keep the packs of pushes while they come in.
	Spools *hosted.Spools
	// Over is closed when a task has ended or a lease is not the newest any more; see
	// internal/activetasks. It ends a push early. Required for Pushes.
	Over func(ref schemas.Ref, lease int) (over <-chan struct{}, forget func())
	// Limits bound a pack.
	Limits gitwire.PackLimits
	// Timeout bounds one push.
	Timeout time.Duration
	// Alone says that no other process can be working on this log.
	Alone bool
	Now   func() time.Time
}

// Pushes executes kind push. It is safe for concurrent use.
type Pushes struct{ cfg Config }

// NewPushes returns an executor of pushes.
func NewPushes(cfg Config) *Pushes {
	return &Pushes{cfg}
}

// remoteRetry is when a push is looked at again that another node may be executing.
const remoteRetry = 2 * time.Second

// Here returns nil if this worker can tell how a push ends that it does not execute. The node that
// accepted the push executes it, and has its repository unless that is an upstream's. So a worker
// without the repository leaves the push to that node until its time is up.
func (p *Pushes) Here(ctx context.Context, st *ledger.State) error {
	order, err := call.Payload[schemas.PushOrder](st, "an order of a push")
	if err != nil || p.cfg.Alone || order.Denied != "" || len(st.Attempts) > 0 {
		return nil //nolint:nilerr // Execute returns it
	}
	now, until := p.cfg.Now(), st.Action.Deadline
	repo, err := p.cfg.Repos.Get(ctx, st.Tenant, order.Repo)
	switch {
	case err != nil:
		return nil //nolint:nilerr // Execute returns it
	case repo.Mode == schemas.RepoProxy:
		if limit := st.Action.AcceptedAt.Add(p.cfg.Timeout); until.IsZero() || limit.Before(until) {
			until = limit
		}
	case p.cfg.Hosted.Here(repo.ID) == nil:
		return nil
	}
	if !until.IsZero() && !now.Before(until) {
		return nil
	}
	return &fault.RetryAfter{After: remoteRetry}
}

// Execute makes the push, or finds its result.
func (p *Pushes) Execute(ctx context.Context, st *ledger.State, stop call.Stop) (settle.Outcome, error) {
	order, err := call.Payload[schemas.PushOrder](st, "an order of a push")
	if err != nil {
		return settle.Outcome{}, err
	}
	w := &work{Pushes: p, st: st, order: order, stop: stop, during: ctx}
	e, err := w.execute(ctx)
	if err != nil {
		return settle.Outcome{}, err
	}
	if e.Outcome == schemas.OutcomeSucceeded {
		if err := p.pushed(ctx, st, order); err != nil {
			return settle.Outcome{}, err
		}
	}
	e.Result = w.result(e)
	return e, p.cfg.record(ctx, st, ".push", schemas.EvidencePush, e.Code, w.audit(e))
}

func taskRef(tenant, id string) schemas.Ref {
	return schemas.Ref{Tenant: tenant, Kind: schemas.KindTask, ID: id}
}

// task folds a task; nil: there is none any more.
func (p *Pushes) task(ctx context.Context, tenant, id string) (*ledger.State, *task.State, error) {
	var doc json.RawMessage
	st, err := p.cfg.Ledger.Load(ctx, taskRef(tenant, id))
	if err == nil {
		doc, err = p.cfg.Ledger.Blob(ctx, st.Action.Payload, st.Action.PayloadBlob)
	}
	switch {
	case errors.Is(err, fault.ErrNotFound), errors.Is(err, fault.ErrGone):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	}
	s, err := task.Fold(st.Action, doc, st.Events)
	return st, s, err
}

// mayPush is nil while the client may push: errOver where the task has ended or the
// lease is lost, errBranch where the branch is not the task's, errMany where it was pushed
// to as often as it may be, and errLook where that is not known.
func (p *Pushes) mayPush(ctx context.Context, tenant string, o schemas.PushOrder) error {
	st, s, err := p.task(ctx, tenant, o.TaskID)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errLook, err)
	case st == nil, !s.Lives(o.Lease, st.Action.Deadline, p.cfg.Now()), o.Key != "" && o.Key != s.Key():
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
		case err != nil || st == nil:
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
	return err == nil && st != nil && has(st, push.ID), err
}

func has(st *ledger.State, push string) bool {
	for _, ev := range st.Events {
		if ev.Task != nil && ev.Task.What == schemas.TaskPushed && ev.Task.Push == push {
			return true
		}
	}
	return false
}
