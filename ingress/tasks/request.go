package tasks

import (
	"context"

	"weir/internal/problem"
	"weir/internal/task"
	"weir/schemas"
)

// decision decides about a bearer by its task: it refuses the bearer, or returns the events to write.
type decision func(b bearer, f file) ([]*schemas.TaskEvent, error)

// request is what the holder of a token asks for.
type request struct {
	// allow lets a bearer make the request; its events come before those of do.
	allow decision
	// read reads the body, after the bearer was allowed: others do not learn what is wrong with a body.
	// nil: there is none.
	read func() error
	// do is the request itself; nil: it only authenticates.
	do decision
	// joins: the events that a repeat finds must be durable, too.
	joins bool
}

// serve authorizes a bearer, writes the events of its request and keeps its lease. Errors are public
// ones. The Access of an allowed bearer has its Ref, whatever fails after its body was read.
func (d *Service) serve(ctx context.Context, b bearer, q request) (Access, file, error) {
	var v Access
	if q.read != nil {
		if _, err := d.allowed(ctx, b, q.allow); err != nil {
			return v, file{}, err
		}
		v.Ref = b.ref
		if err := q.read(); err != nil {
			return v, file{}, err
		}
	}
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	f, wrote, err := d.change(ctx, b.ref, func(f file) ([]*schemas.TaskEvent, error) {
		events, err := q.allow(b, f)
		if err != nil || q.do == nil {
			return events, err
		}
		more, err := q.do(b, f)
		return append(events, more...), err
	})
	if err != nil {
		return v, f, d.refusal(b, err)
	}
	d.known(b)
	if wrote || q.joins {
		if err := d.durable(ctx); err != nil {
			return v, f, err
		}
	}
	if d.lives(f, b.lease) {
		d.Touch(ctx, b.ref, b.lease)
	}
	return access(b, f), f, nil
}

// serveToken is serve for the bearer of a token.
func (d *Service) serveToken(ctx context.Context, token string, q request) (Access, error) {
	b, err := d.bearer(ctx, token)
	if err != nil {
		return Access{}, err
	}
	v, _, err := d.serve(ctx, b, q)
	return v, err
}

// allowed opens the task of a bearer that may make a request.
func (d *Service) allowed(ctx context.Context, b bearer, allow decision) (file, error) {
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	f, err := d.open(ctx, b.ref)
	if err == nil {
		_, err = allow(b, f)
	}
	if err != nil {
		return f, d.refusal(b, err)
	}
	d.known(b)
	return f, nil
}

// acts lets the holder of a running task act for it. Its first request takes the task.
func (d *Service) acts(b bearer, f file) ([]*schemas.TaskEvent, error) {
	if !b.holds(f) || !d.lives(f, b.lease) {
		return nil, d.refused(b, f)
	}
	if b.lease == 0 && f.task.Status == schemas.TaskStatusQueued {
		return one(schemas.TaskEvent{What: schemas.TaskClaimed}), nil
	}
	return nil, nil
}

// delegates is acts for a request that a subtoken may make as well.
func (d *Service) delegates(b bearer, f file) ([]*schemas.TaskEvent, error) {
	if sub, err := d.subtoken(b, f); sub != nil || err != nil {
		return nil, err
	}
	return d.acts(b, f)
}

// reports lets those in who held the task when it ended.
func (d *Service) reports(b bearer, f file) ([]*schemas.TaskEvent, error) {
	if !b.holds(f) && !b.had(f) {
		return nil, d.refused(b, f)
	}
	return nil, nil
}

func one(e schemas.TaskEvent) []*schemas.TaskEvent { return []*schemas.TaskEvent{&e} }

// Report accepts an agent's report of how its task ended. read reads the report after the token is
// authorized. Only the first report counts: a repeat from the same token is no error, and any other
// report for an ended task is TASK_NOT_RUNNING. The other errors are those of Send and of read.
func (d *Service) Report(ctx context.Context, token string, read func() (schemas.TaskReport, error)) (schemas.Ref, error) {
	var r schemas.TaskReport
	v, err := d.serveToken(ctx, token, request{
		allow: d.reports, joins: true,
		read: func() (err error) { r, err = read(); return err },
		do: func(b bearer, f file) ([]*schemas.TaskEvent, error) {
			switch repeat := b.had(f) && f.task.Report != nil && *f.task.Report == r; {
			case repeat:
				return nil, nil
			case !d.lives(f, b.lease):
				return nil, notRunning(f.task)
			}
			events, err := d.acts(b, f)
			return append(events, &schemas.TaskEvent{What: schemas.TaskReported, Lease: b.lease, Report: &r}), err
		},
	})
	return v.Ref, err
}

// notRunning is task.NotRunning with the state that the task is in.
func notRunning(s *task.State) error {
	return &problem.Error{
		Problem: schemas.Problem{Code: schemas.TaskNotRunning, Detail: task.NotRunningText, Reason: string(s.Status)},
		Cause:   task.NotRunning(),
	}
}
