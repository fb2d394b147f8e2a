package tasks

import (
	"context"
	"errors"
	"time"

	"weir/internal/fault"
	"weir/internal/task"
	"weir/schemas"
)

// bearer is who shows a token: the holder of a task's, or an agent of a pool for the
// task that it holds.
type bearer struct {
	ref schemas.Ref
	// lease is the one that is claimed; 0: the task's own token.
	lease int
	token task.Token // of a task
	agent string     // the id of the pool's token; empty: it showed a task's
}

// holds reports whether the task says the same of who has it.
func (b bearer) holds(f file) bool {
	if b.agent != "" {
		return f.task.Leased && f.task.Lease == b.lease && f.task.Holder == b.agent
	}
	return f.task.Accepts(b.token)
}

// had reports whether it held the task when that ended.
func (b bearer) had(f file) bool {
	if b.agent != "" {
		return f.task.WasLeased(b.lease, b.agent)
	}
	return f.task.Was(b.token)
}

// refused is the answer where it does not hold the task.
func (d *Service) refused(b bearer, f file) error {
	if b.agent != "" {
		return errNoTask()
	}
	if _, err := d.subtoken(b, f); err != nil || b.token.Subtoken == 0 {
		return errToken(err)
	}
	return fault.New(schemas.Forbidden, "this is a subtoken: it makes calls, and only the holder of the task reports and asks; use the holder's token")
}

// subtoken is what the subtoken of a bearer permits; nil: it has none.
func (d *Service) subtoken(b bearer, f file) (*schemas.Subtoken, error) {
	if b.token.Subtoken == 0 {
		return nil, nil //nolint:nilnil // both are answers
	}
	sub, ok := f.task.Subtoken(b.token, d.cfg.Now())
	if !ok || !d.lives(f, b.lease) {
		return nil, errToken(nil)
	}
	return &sub, nil
}

// bearer finds out who shows a token, as far as the token tells, and counts the
// request. Errors: UNAUTHORIZED, FORBIDDEN, RATE_LIMITED, UNAVAILABLE;
// TASK_NOT_RUNNING for an agent of a pool that holds no task.
func (d *Service) bearer(ctx context.Context, text string) (bearer, error) {
	if task.Is(text) {
		return d.holder(text)
	}
	who, err := d.worker(text)
	if err != nil {
		return bearer{}, err
	}
	b, ok, err := d.held(ctx, who)
	if err == nil && !ok {
		err = errNoTask()
	}
	return b, err
}

// sole is bearer for what is done to one task. An agent of a pool that holds several is CONFLICT, and one
// that holds none is the bearer of the last task whose end it has reported.
func (d *Service) sole(ctx context.Context, text string) (bearer, error) {
	if task.Is(text) {
		return d.holder(text)
	}
	who, err := d.worker(text)
	if err != nil {
		return bearer{}, err
	}
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	if err := d.active.CatchUp(ctx); err != nil {
		return bearer{}, unread(err)
	}
	n, last := d.active.Leases(who.Tenant, who.ID)
	if n > 1 {
		return bearer{}, fault.New(schemas.Conflict, "the token holds more than one task; send the lease's own token, which came with the lease")
	}
	b, ok, err := d.held(ctx, who)
	switch {
	case err != nil || ok:
		return b, err
	case last.Ref.ID == "":
		return bearer{}, errNoTask()
	}
	return bearer{ref: last.Ref, lease: last.Lease, agent: who.ID}, nil
}

// holder reads a task's token.
func (d *Service) holder(text string) (bearer, error) {
	t, ok := task.Parse(text)
	if !ok {
		return bearer{}, errToken(nil)
	}
	if wait, known := d.rates.reserve(t.Hash()); wait > 0 && known {
		return bearer{}, errLimited(wait, "this task's token has sent too many requests; wait as long as Retry-After says")
	} else if wait > 0 {
		return bearer{}, errLimited(wait, "too many requests have come with tokens that are not in force; wait as long as Retry-After says")
	}
	return bearer{ref: t.Ref(), lease: t.Lease, token: t}, nil
}

// known has a token's requests counted from now on, that was found to be in force.
func (d *Service) known(b bearer) {
	if b.agent == "" {
		d.rates.know(b.token.Hash())
	}
}

// refusal words why a bearer is not let in. To find out that a task's token is not in force
// takes a look at the log, so it is counted.
func (d *Service) refusal(b bearer, err error) error {
	if b.agent != "" && lost(err) {
		return errNoTask()
	}
	err = unread(err)
	if public, ok := errors.AsType[*fault.Error](err); ok && public.Code == schemas.Unauthorized && b.agent == "" {
		d.rates.refuse(b.token.Hash())
	}
	return err
}

// verify says whose a token is that is no task's.
func (d *Service) verify(text string) (schemas.Token, error) {
	if d.cfg.Verify == nil || text == "" {
		return schemas.Token{}, errToken(nil)
	}
	return d.cfg.Verify(text)
}

// worker is verify, for those that may lease tasks.
func (d *Service) worker(text string) (schemas.Token, error) {
	who, err := d.verify(text)
	if err == nil {
		err = fault.Scope(who.Scopes, schemas.ScopeTasksWork)
	}
	return who, err
}

// held finds the task that an agent of a pool holds. The cache may be late; the
// task's own events decide.
func (d *Service) held(ctx context.Context, who schemas.Token) (b bearer, ok bool, err error) {
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	for _, late := range []bool{true, false} {
		e, there := d.active.Held(who.Tenant, who.ID)
		if there {
			b = bearer{ref: e.Ref, lease: e.Lease, agent: who.ID}
			f, err := d.open(ctx, e.Ref)
			switch {
			case err == nil && b.holds(f) && d.lives(f, b.lease):
				return b, true, nil
			case err != nil && !lost(err):
				return bearer{}, false, unread(err)
			}
		}
		if !late {
			break
		}
		if err := d.active.CatchUp(ctx); err != nil {
			return bearer{}, false, unread(err)
		}
	}
	return bearer{}, false, nil
}

// lost reports whether a task cannot be read, now or later.
func lost(err error) bool {
	_, poison := errors.AsType[*fault.Terminal](err)
	return poison || errors.Is(err, fault.ErrNotFound) || errors.Is(err, fault.ErrGone)
}

// errNoTask is for an agent of a pool that holds none.
func errNoTask() error {
	return fault.New(schemas.TaskNotRunning, "Task is not running: this token holds no task; lease one first with GET /agent/task")
}

func errLimited(wait time.Duration, why string) error {
	return &fault.Error{Code: schemas.RateLimited, Message: why, RetryAfter: wait}
}
