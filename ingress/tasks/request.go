package tasks

import (
	"context"
	"strconv"
	"time"

	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/internal/task"
	"weir/schemas"
)

// decision decides about a bearer by its task: it refuses the bearer, or returns the events to write.
type decision func(b bearer, f file) ([]schemas.Event, error)

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
func (d *Service) serve(ctx context.Context, b bearer, q request) (v Access, err error) {
	if q.read != nil {
		if _, err := d.allowed(ctx, b, q.allow); err != nil {
			return v, err
		}
		v.Ref = b.ref
		if err := q.read(); err != nil {
			return v, err
		}
	}
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	f, wrote, err := d.change(ctx, b.ref, func(f file) ([]schemas.Event, error) {
		events, err := q.allow(b, f)
		if err != nil || q.do == nil {
			return events, err
		}
		more, err := q.do(b, f)
		return append(events, more...), err
	})
	if err != nil {
		return v, d.refusal(b, err)
	}
	d.known(b)
	if wrote || q.joins {
		if err := d.durable(ctx); err != nil {
			return v, err
		}
	}
	if d.lives(f, b.lease) {
		d.Touch(ctx, b.ref, b.lease)
	}
	return access(b, f), nil
}

// serveToken is serve for the bearer of a token, by which one task is meant.
func (d *Service) serveToken(ctx context.Context, token string, q request) (Access, error) {
	b, err := d.sole(ctx, token)
	if err != nil {
		return Access{}, err
	}
	return d.serve(ctx, b, q)
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
func (d *Service) acts(b bearer, f file) ([]schemas.Event, error) {
	if !b.holds(f) || !d.lives(f, b.lease) {
		return nil, d.refused(b, f)
	}
	if b.lease == 0 && f.task.Status == schemas.TaskStatusQueued {
		return one(schemas.TaskEvent{What: schemas.TaskClaimed}), nil
	}
	return nil, nil
}

// delegates is acts for a request that a subtoken may make as well.
func (d *Service) delegates(b bearer, f file) ([]schemas.Event, error) {
	if sub, err := d.subtoken(b, f); sub != nil || err != nil {
		return nil, err
	}
	return d.acts(b, f)
}

// reports lets those in who held the task when it ended.
func (d *Service) reports(b bearer, f file) ([]schemas.Event, error) {
	if !b.holds(f) && !b.had(f) {
		return nil, d.refused(b, f)
	}
	return nil, nil
}

func one(e schemas.TaskEvent) []schemas.Event {
	return []schemas.Event{{Type: schemas.EventSignal, Task: &e}}
}

// Report accepts an agent's report of how its task ended. read reads the report after the token is
// authorized. Only the first report counts: a repeat from the same token is no error, and any other
// report for an ended task is TASK_NOT_RUNNING. The other errors are those of Send and of read.
func (d *Service) Report(ctx context.Context, token string, read func() (schemas.TaskReport, error)) (schemas.Ref, error) {
	var r schemas.TaskReport
	v, err := d.serveToken(ctx, token, request{
		allow: d.reports, joins: true,
		read: func() (err error) { r, err = read(); return err },
		do: func(b bearer, f file) ([]schemas.Event, error) {
			switch repeat := b.had(f) && f.task.Report != nil && *f.task.Report == r; {
			case repeat:
				return nil, nil
			case !d.lives(f, b.lease):
				return nil, notRunning(f.task)
			}
			events, err := d.acts(b, f)
			return append(events, one(schemas.TaskEvent{What: schemas.TaskReported, Lease: b.lease, Report: &r})...), err
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

// Ask puts an agent's question to the task's people, and returns its number. read reads the
// question and its key after the token is authorized. A repeat is the same question: one with the
// same key or, without a key, one with the text of an unanswered question, or of the newest one until a
// minute after its answer. So an agent that was disconnected, or does not know whether it has asked, gets the answer without a
// duplicate. The errors are those of Send and of read, CONFLICT for too many questions, and
// IDEMPOTENCY_MISMATCH for a key with another text.
func (d *Service) Ask(ctx context.Context, token string, read func() (text, key string, err error)) (v Access, n int, err error) {
	var text, key string
	v, err = d.serveToken(ctx, token, request{
		allow: d.acts, joins: true,
		read: func() (err error) { text, key, err = read(); return err },
		do: func(b bearer, f file) ([]schemas.Event, error) {
			if n, err = asked(f, text, key, d.cfg.Now()); err != nil || n > 0 {
				return nil, err
			}
			if n = len(f.task.Inquiries) + 1; n > schemas.MaxTaskInquiries {
				return nil, fault.New(schemas.Conflict, "the task has asked "+strconv.Itoa(schemas.MaxTaskInquiries)+" questions, which is the most; go on by what was answered")
			}
			return one(schemas.TaskEvent{
				What: schemas.TaskAsked, Lease: b.lease, Inquiry: &schemas.TaskInquiry{N: n, Key: key, Text: text},
			}), nil
		},
	})
	return v, n, err
}

// rejoin is how long after its answer a question without a key is joined: later it is asked anew.
const rejoin = time.Minute

// asked is the number of the question that this one repeats, or 0.
func asked(f file, text, key string, now time.Time) (int, error) {
	for i, q := range f.task.Inquiries {
		newest := i == len(f.task.Inquiries)-1
		switch {
		case q.Key != key:
		case key != "" && q.Text != text:
			return 0, fault.New(schemas.IdempotencyMismatch, "this Idempotency-Key was used for another question; use a new key for a new one")
		case key != "", q.Text == text && (q.Answer == nil || newest && now.Sub(q.Answered) < rejoin):
			return q.N, nil
		}
	}
	return 0, nil
}

// Answer takes a person's answer to a question. By names who answers. The first answer
// counts: the same again changes nothing. Errors: NOT_FOUND, STREAM_GONE, UNAVAILABLE;
// VALIDATION_ERROR where it does not say which question it answers; CONFLICT where that
// one has another answer, or the task has ended.
func (d *Service) Answer(ctx context.Context, tenant, id string, req schemas.AnswerRequest, by string) (schemas.Ref, error) {
	return d.people(ctx, tenant, id, func(f file) ([]schemas.Event, error) {
		to, done, err := answers(f, req.Inquiry, req.Answer)
		switch {
		case err != nil || done:
			return nil, err
		case d.over(f):
			return nil, errEnded()
		}
		return one(schemas.TaskEvent{What: schemas.TaskAnswered, Inquiry: &schemas.TaskInquiry{N: to, Text: req.Answer, By: by}}), nil
	})
}

// answers finds the question that an answer is for; done: it has that answer.
func answers(f file, n int, text string) (to int, done bool, err error) {
	all, open := f.task.Inquiries, f.task.Open()
	switch {
	case n > len(all):
		return 0, false, fault.New(schemas.ValidationError, "at /inquiry: the task has not asked that question; GET /v1/tasks/{id} shows those it has")
	case n == 0 && len(open) > 1:
		return 0, false, fault.New(schemas.ValidationError, "at /inquiry: is missing, and more than one question is open; name the one that this answers")
	case n == 0 && len(open) == 1:
		n = open[0].N
	case n == 0:
		n = len(all)
	}
	if n == 0 {
		return 0, false, fault.New(schemas.Conflict, "the task has asked nothing")
	}
	q := all[n-1]
	switch {
	case q.Answer == nil:
		return n, false, nil
	case *q.Answer == text:
		return n, true, nil
	default:
		return 0, false, fault.New(schemas.Conflict, "the question has another answer already, and the first one counts")
	}
}

// people runs a change of a task by its people.
func (d *Service) people(ctx context.Context, tenant, id string, decide func(f file) ([]schemas.Event, error)) (schemas.Ref, error) {
	ref := schemas.Ref{Tenant: tenant, Kind: schemas.KindTask, ID: id}
	if !schemas.ValidID(id) {
		return schemas.Ref{}, missing(fault.ErrNotFound)
	}
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	if _, _, err := d.change(ctx, ref, decide); err != nil {
		return schemas.Ref{}, missing(err)
	}
	return ref, d.durable(ctx)
}

func errEnded() error {
	return fault.New(schemas.Conflict, "the task has ended, or was asked to stop")
}

// Output stores a piece of output of a task's command. Any call keeps the lease; without a text it
// does nothing else. read reads the piece after the token is authorized. The errors are those of
// Send and of read; TASK_NOT_RUNNING with the task's status for the token that was in force when
// the task ended; and CONFLICT if the task has as much output as it may have.
func (d *Service) Output(ctx context.Context, token string, read func() (schemas.OutputRequest, error)) (schemas.Ref, error) {
	var out schemas.OutputRequest
	var full error
	v, err := d.serveToken(ctx, token, request{
		allow: d.reports,
		read:  func() (err error) { out, err = read(); return err },
		do: func(b bearer, f file) ([]schemas.Event, error) {
			if !d.lives(f, b.lease) {
				return nil, notRunning(f.task)
			}
			events, err := d.acts(b, f)
			if err != nil || out.Text == "" {
				return events, err
			}
			if f.log.Progress >= schemas.MaxTaskOutputs || f.log.ProgressBytes+len(out.Text) > schemas.MaxTaskLog {
				full = fault.New(schemas.Conflict, "the task has reached its limit of output: "+strconv.Itoa(schemas.MaxTaskOutputs)+" pieces or "+
					strconv.Itoa(schemas.MaxTaskLog>>20)+" MiB; keep the rest on the agent's machine")
				return events, nil
			}
			data, err := ledger.Encode(schemas.TaskOutput{Lease: b.lease, At: out.At, Text: out.Text})
			return append(events, schemas.Event{Type: schemas.EventProgress, Data: data}), err
		},
	})
	if err == nil {
		err = full
	}
	return v.Ref, err
}

// ReadSubtoken reads a checked body of POST /agent/task/subtokens.
func ReadSubtoken(body []byte) (req schemas.SubtokenRequest, err error) {
	if err := strict.Decode(body, &req); err != nil {
		return req, err
	}
	if err := (task.Bounds{Entries: req.Entries, Models: req.Models}).Check(req.Entries != nil, req.Models != nil); err != nil {
		return req, err
	}
	if ttl, err := time.ParseDuration(req.TTL); req.TTL != "" && (err != nil || ttl < shortest) {
		return req, refuse("ttl", `must be a duration of at least a second, such as "30m"`)
	}
	if req.Repo != "" && req.Repo != schemas.RepoRead && req.Repo != schemas.RepoWrite {
		return req, refuse("repo", "must be read or write; leave it out for no rights on the repository")
	}
	return req, checkBudget(req.Budget)
}

// Delegate makes a subtoken with the token of a holder, or with another subtoken; read reads the request
// after the token is authorized. The subtoken permits no more than that token, and ends with the
// holder's. Its secret is stored nowhere. Errors: those of Send and of read, FORBIDDEN for more than the
// token permits, and CONFLICT for too many subtokens.
func (d *Service) Delegate(
	ctx context.Context, token string, read func() (schemas.SubtokenRequest, error),
) (ref schemas.Ref, made schemas.NewSubtoken, err error) {
	var req schemas.SubtokenRequest
	secret := d.Secret()
	v, err := d.serveToken(ctx, token, request{
		allow: d.delegates,
		read:  func() (err error) { req, err = read(); return err },
		do: func(b bearer, f file) ([]schemas.Event, error) {
			parent, err := d.subtoken(b, f)
			if err != nil {
				return nil, err
			}
			sub, err := task.Derive(req, parent, task.Of(f.log.Action), d.cfg.Now(), f.log.Action.Deadline)
			if err != nil {
				return nil, err
			}
			if sub.N = f.task.Subtokens() + 1; sub.N > schemas.MaxTaskSubtokens {
				return nil, fault.New(schemas.Conflict, "the task has "+strconv.Itoa(schemas.MaxTaskSubtokens)+" subtokens, which is the most; use one that it has")
			}
			made.Subtoken = sub
			return one(schemas.TaskEvent{What: schemas.TaskSubtoken, Lease: b.lease, TokenHash: secret.Hash(), Subtoken: &sub}), nil
		},
	})
	if err != nil {
		return v.Ref, schemas.NewSubtoken{}, err
	}
	made.Token = secret.subtoken(v.Ref, v.Lease, made.N)
	return v.Ref, made, nil
}
