package tasks

import (
	"context"

	"weir/ingress"
	"weir/internal/fault"
	"weir/internal/task"
	"weir/schemas"
)

// Access is one authorized request of a task's holder.
type Access struct {
	Ref schemas.Ref
	// Lease is the holder's; 0: it has the task's own token.
	Lease int
	// Task is where the task stands, this request in it.
	Task   *task.State
	action schemas.Action
	sub    *schemas.Subtoken // the one that the request has; nil: it has the holder's own token
}

func access(b bearer, f file) Access {
	return Access{Ref: b.ref, Lease: b.lease, Task: f.task, action: f.log.Action}
}

func (d *Service) authorize(ctx context.Context, b bearer) (Access, error) {
	return d.serve(ctx, b, request{allow: d.acts})
}

// Holds is Send for a caller that has authenticated with another kind of token: it finds the task
// that the caller holds as an agent of a pool. ok is false if it holds none.
func (d *Service) Holds(ctx context.Context, tenant, holder string) (v Access, ok bool, err error) {
	b, ok, err := d.held(ctx, schemas.Token{Tenant: tenant, ID: holder})
	if err != nil || !ok {
		return Access{}, false, err
	}
	v, err = d.authorize(ctx, b)
	return v, err == nil, err
}

// Send lets the holder of a task in: with the task's own token, a lease's, or the
// token of a pool's agent that has leased one. The first request with its own token
// takes the task, which is Running then. Each keeps the lease. A subtoken is admitted too, and keeps the
// lease of its holder. Errors are public ones: UNAUTHORIZED, the same for every task's token that is not
// in force, FORBIDDEN, RATE_LIMITED, UNAVAILABLE, and TASK_NOT_RUNNING for an agent of a pool without a
// task.
func (d *Service) Send(ctx context.Context, token string) (Access, error) {
	b, err := d.bearer(ctx, token)
	if err != nil {
		return Access{}, err
	}
	if b.token.Subtoken == 0 {
		return d.authorize(ctx, b)
	}
	v, err := d.look(ctx, b)
	if err == nil {
		d.Touch(ctx, b.ref, b.lease)
	}
	return v, err
}

// Look is Send for a question that changes nothing: it neither takes the task nor keeps
// its lease.
func (d *Service) Look(ctx context.Context, token string) (Access, error) {
	b, err := d.bearer(ctx, token)
	if err != nil {
		return Access{}, err
	}
	return d.look(ctx, b)
}

func (d *Service) look(ctx context.Context, b bearer) (Access, error) {
	f, err := d.allowed(ctx, b, d.delegates)
	if err != nil {
		return Access{}, err
	}
	v := access(b, f)
	v.sub, err = d.subtoken(b, f)
	return v, err
}

// Knows reports whether a text is the token of a running task, or was the current one when the task
// ended. It does not count a request with such a token; it counts any other like an invalid token.
func (d *Service) Knows(ctx context.Context, text string) bool {
	t, ok := task.Parse(text)
	if !ok || !d.rates.room(t.Hash()) {
		return false
	}
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	b := bearer{ref: t.Ref(), lease: t.Lease, token: t}
	f, err := d.open(ctx, b.ref)
	if err == nil && (b.holds(f) || b.had(f) || f.task.Delegates(t)) {
		return true
	}
	if err == nil || lost(err) { // else the log could not be read, and nothing is known of the token
		d.rates.refuse(t.Hash())
	}
	return false
}

// Identity is the holder as the sender of calls and completions. It may use what the task may. It is
// the zero identity without a task.
func (v Access) Identity() ingress.Identity {
	if v.Task == nil {
		return ingress.Identity{}
	}
	who := ingress.Identity{
		Token: schemas.Token{
			Tenant: v.Ref.Tenant, Scopes: []string{schemas.ScopeActionsWrite}, ID: v.action.Principal, Name: v.action.Caller,
			Entries: v.action.Entries, Models: v.action.Models, ExpiresAt: v.action.Deadline,
		},
		Holding: &ingress.Holding{Task: v.Ref, Lease: v.Lease, Budget: v.Task.Order.Budget},
	}
	if len(v.Task.Order.Models) == 0 {
		who.Holding.Model = v.Task.Order.Model
	}
	if v.sub != nil {
		who.Entries, who.Models, who.ExpiresAt = v.sub.Entries, v.sub.Models, v.sub.ExpiresAt
		who.Holding.Subtokens = v.Task.Budgets(v.sub.N)
	}
	return who
}

// Grant says what the holder of a token may do with repositories: of a task with its
// own branch, as Send has it, or of any other token with what it may read. Its errors
// are those of Send.
func (d *Service) Grant(ctx context.Context, token string) (task.Grant, error) {
	if task.Is(token) {
		v, err := d.Send(ctx, token)
		if err == nil && v.sub != nil && v.sub.Repo == "" {
			err = fault.New(schemas.Forbidden, "this subtoken has no rights on the repository; its holder makes one that has with repo: read or write")
		}
		return v.grant(), err
	}
	who, err := d.verify(token)
	if err != nil {
		return task.Grant{}, err
	}
	works := schemas.Grants(who.Scopes, schemas.ScopeTasksWork)
	if works {
		b, ok, err := d.held(ctx, who)
		if err != nil {
			return task.Grant{}, err
		}
		if ok {
			v, err := d.authorize(ctx, b)
			return v.grant(), err
		}
	}
	if err := fault.Scope(who.Scopes, schemas.ScopeActionsRead, schemas.ScopeTasksWrite); err != nil {
		if works {
			err = errNoTask()
		}
		return task.Grant{}, err
	}
	return task.Grant{Tenant: who.Tenant, Principal: who.ID, Entries: who.Entries}, nil
}

func (v Access) grant() task.Grant {
	if v.Task == nil {
		return task.Grant{}
	}
	g := task.Grant{
		Tenant: v.Ref.Tenant, TaskID: v.Ref.ID, Lease: v.Lease, Key: v.Task.Key(),
		Repo: v.Task.Order.Repo, Branch: v.Task.Branch, Base: v.Task.Order.BaseRef, Force: v.Task.Order.ForcePush,
		Opened: v.Task.Opened, Principal: v.action.Principal, Entries: v.action.Entries,
	}
	if v.Lease > 0 {
		g.Holder = v.Task.Holder
	}
	if v.sub != nil {
		g.Entries, g.ReadOnly = v.sub.Entries, v.sub.Repo != schemas.RepoWrite
	}
	return g
}
