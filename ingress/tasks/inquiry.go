package tasks

import (
	"context"
	"strconv"

	"weir/internal/fault"
	"weir/schemas"
)

// Ask puts an agent's question to the task's people, and returns its number. read reads the
// question and its key after the token is authorized. A repeat is the same question: one with the
// same key or, without a key, one with the text of an unanswered question or of the newest one. So
// an agent that was disconnected, or does not know whether it has asked, gets the answer without a
// duplicate. The errors are those of Send and of read, CONFLICT for too many questions, and
// IDEMPOTENCY_MISMATCH for a key with another text.
func (d *Service) Ask(ctx context.Context, token string, read func() (text, key string, err error)) (v Access, n int, err error) {
	var text, key string
	v, err = d.serveToken(ctx, token, request{
		allow: d.acts, joins: true,
		read: func() (err error) { text, key, err = read(); return err },
		do: func(b bearer, f file) ([]*schemas.TaskEvent, error) {
			if n, err = asked(f, text, key); err != nil || n > 0 {
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

// asked is the number of the question that this one repeats, or 0.
func asked(f file, text, key string) (int, error) {
	for i, q := range f.task.Inquiries {
		newest := i == len(f.task.Inquiries)-1
		switch {
		case q.Key != key:
		case key != "" && q.Text != text:
			return 0, fault.New(schemas.IdempotencyMismatch, "this Idempotency-Key was used for another question; use a new key for a new one")
		case key != "", q.Text == text && (q.Answer == nil || newest):
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
	return d.people(ctx, tenant, id, func(f file) ([]*schemas.TaskEvent, error) {
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
func (d *Service) people(ctx context.Context, tenant, id string, decide func(f file) ([]*schemas.TaskEvent, error)) (schemas.Ref, error) {
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
