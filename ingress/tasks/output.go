package tasks

import (
	"context"
	"errors"
	"strconv"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

// Output stores a piece of output of a task's command. Any call keeps the lease; without a text it
// does nothing else. read reads the piece after the token is authorized. The errors are those of
// Send and of read; TASK_NOT_RUNNING with the task's status for the token that was in force when
// the task ended; and CONFLICT if the task has as much output as it may have.
func (d *Service) Output(ctx context.Context, token string, read func() (schemas.OutputRequest, error)) (schemas.Ref, error) {
	b, err := d.bearer(ctx, token)
	if err != nil {
		return schemas.Ref{}, err
	}
	var out schemas.OutputRequest
	q := request{
		allow: d.reports,
		read:  func() (err error) { out, err = read(); return err },
		do: func(b bearer, f file) ([]*schemas.TaskEvent, error) {
			if !d.lives(f, b.lease) {
				return nil, notRunning(f.task)
			}
			return d.acts(b, f)
		},
	}
	v, f, err := d.serve(ctx, b, q)
	if err != nil || out.Text == "" {
		return v.Ref, err
	}
	q.read = nil
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	for range maxTries {
		err = d.append(ctx, f, schemas.TaskOutput{Lease: b.lease, At: out.At, Text: out.Text})
		if !errors.Is(err, fault.ErrFenced) {
			return b.ref, err
		}
		if _, f, err = d.serve(ctx, b, q); err != nil {
			return b.ref, err
		}
	}
	return b.ref, errBusy()
}

// append writes a piece of output. Output is shown without a barrier: its loss loses no state.
func (d *Service) append(ctx context.Context, f file, out schemas.TaskOutput) error {
	if f.log.Progress >= schemas.MaxTaskOutputs || f.log.ProgressBytes+len(out.Text) > schemas.MaxTaskLog {
		return fault.New(schemas.Conflict, "the task has reached its limit of output: "+strconv.Itoa(schemas.MaxTaskOutputs)+" pieces or "+
			strconv.Itoa(schemas.MaxTaskLog>>20)+" MiB; keep the rest on the agent's machine")
	}
	data, err := ledger.Encode(out)
	if err != nil {
		return err
	}
	err = d.ledger.Append(ctx, f.log, schemas.Event{Type: schemas.EventProgress, Time: d.cfg.Now().UTC(), Data: data})
	if err == nil || errors.Is(err, fault.ErrFenced) {
		return err
	}
	return unknown(err)
}
