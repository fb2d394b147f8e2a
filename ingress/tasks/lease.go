package tasks

import (
	"context"
	"slices"
	"time"

	"weir/internal/activetasks"
	"weir/internal/fault"
	"weir/internal/task"
	"weir/schemas"
)

// may reports whether a worker may lease the tasks of a pool that were made with entries and models.
// An empty list of a worker's allows all.
func may(w schemas.Token, pool string, entries, models []string) bool {
	return (len(w.Pools) == 0 || slices.Contains(w.Pools, pool)) && task.Bounds{Entries: w.Entries, Models: w.Models}.Covers(task.Bounds{Entries: entries, Models: models})
}

// AuthorizeOrLease is Send without subtokens for an agent that asks for its task: where it is of a
// pool and holds none, it leases the oldest there is, and the lease's own token comes back. NOT_FOUND
// says that there is none. The token that was in force when its task ended gets that task,
// with its end, and nothing else.
func (d *Service) AuthorizeOrLease(ctx context.Context, token string) (v Access, leased string, err error) {
	if task.Is(token) {
		v, err = d.own(ctx, token)
		return v, "", err
	}
	who, err := d.worker(token)
	if err != nil {
		return Access{}, "", err
	}
	leave, err := d.leasing.Lock(ctx, who.Tenant+"\x00"+who.ID) // otherwise it could get two
	if err != nil {
		return Access{}, "", unread(err)
	}
	defer leave()
	b, ok, err := d.held(ctx, who)
	if err != nil {
		return Access{}, "", err
	}
	if ok {
		v, err = d.authorize(ctx, b)
		return v, "", err
	}
	v, leased, err = d.lease(ctx, who)
	if err == nil && leased == "" {
		err = &fault.Error{Code: schemas.NotFound, RetryAfter: time.Second, Message: "there is no task to lease; ask again"}
	}
	return v, leased, err
}

// own is Send without subtokens, and after the task's end a look at it.
func (d *Service) own(ctx context.Context, token string) (Access, error) {
	return d.serveToken(ctx, token, request{allow: func(b bearer, f file) ([]schemas.Event, error) {
		if b.had(f) {
			return nil, nil
		}
		return d.acts(b, f)
	}})
}

// Await leases the oldest task that there is for a worker, which may hold others, and
// waits up to a time for one. Without any the token is empty.
func (d *Service) Await(ctx context.Context, w schemas.Token, wait time.Duration) (v Access, token string, err error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		changed := d.active.Changed(w.Tenant)
		v, token, err = d.lease(ctx, w)
		switch {
		case token != "" && ctx.Err() != nil: // the client is gone
			return Access{}, "", d.Return(ctx, v)
		case err != nil:
			if v.Ref.ID != "" { // it is leased, and its token was not delivered
				_ = d.Return(ctx, v)
			}
			return Access{}, "", err
		case token != "", wait <= 0:
			return v, token, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return Access{}, "", nil
		case <-d.cfg.Draining:
			return Access{}, "", nil
		case <-ctx.Done():
			return Access{}, "", nil
		}
	}
}

// Others may take what the cache shows before it is asked for here.
const (
	candidates = 16 // tasks looked at for one lease
	leaseTries = 4  // times that the cache is asked for them
)

// lease leases one task. Without any the token is empty.
func (d *Service) lease(ctx context.Context, w schemas.Token) (v Access, token string, err error) {
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	for try := range leaseTries {
		if try > 0 {
			if err := d.active.CatchUp(ctx); err != nil {
				return Access{}, "", unread(err)
			}
		}
		list := d.active.Leasable(w.Tenant, func(e activetasks.Entry) bool { return may(w, e.Pool, e.Entries, e.Models) }, candidates)
		if len(list) == 0 && try > 0 {
			break
		}
		for _, e := range list {
			v, token, err = d.claim(ctx, e.Ref, w)
			if err != nil || token != "" {
				return v, token, err
			}
		}
	}
	return Access{}, "", nil
}

// claim leases a task, if it still can be. Without that the token is empty. A visit with
// an error says that it is leased, but may not stay so.
func (d *Service) claim(ctx context.Context, ref schemas.Ref, w schemas.Token) (v Access, token string, err error) {
	secret, lease := d.Secret(), 0
	f, wrote, err := d.change(ctx, ref, func(f file) ([]schemas.Event, error) {
		if !f.task.Leasable() || d.over(f) || !may(w, f.task.Order.Pool, f.log.Action.Entries, f.log.Action.Models) {
			return nil, nil
		}
		lease = f.task.Lease + 1
		return one(schemas.TaskEvent{What: schemas.TaskClaimed, Lease: lease, Holder: w.ID, Agent: w.Name, TokenHash: secret.Hash()}), nil
	})
	switch {
	case err != nil && lost(err):
		return Access{}, "", nil
	case err != nil:
		return Access{}, "", unread(err)
	case !wrote:
		return Access{}, "", nil
	}
	v = access(bearer{ref: ref, lease: lease, agent: w.ID}, f)
	if err := d.durable(ctx); err != nil {
		return v, "", err
	}
	return v, secret.Text(ref, lease), nil
}

// Release gives a leased task back: it is Queued, and the lease's token is invalid. The holder of a
// task's own token cannot release it: CONFLICT. The other errors are those of Send.
func (d *Service) Release(ctx context.Context, token string) (schemas.Ref, error) {
	v, err := d.serveToken(ctx, token, d.release())
	return v.Ref, err
}

// Return gives back a task that Await or Take has leased without delivering its token.
func (d *Service) Return(ctx context.Context, v Access) error {
	_, err := d.serve(ctx, bearer{ref: v.Ref, lease: v.Lease, agent: v.Task.Holder}, d.release())
	return err
}

func (d *Service) release() request {
	return request{allow: d.acts, do: func(b bearer, f file) ([]schemas.Event, error) {
		if b.lease == 0 {
			return nil, fault.New(schemas.Conflict, "who has a task by its own token cannot give it back; report how it ended, or have it canceled")
		}
		return one(schemas.TaskEvent{What: schemas.TaskReleased, Lease: b.lease, Holder: f.task.Holder}), nil
	}}
}
