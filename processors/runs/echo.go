package runs

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"weir/internal/ledger"
	"weir/processors/call"
	"weir/processors/settle"
	"weir/schemas"
)

// echoStep is the data of one progress event.
type echoStep struct {
	Step    int `json:"step"`
	Steps   int `json:"steps"`
	Percent int `json:"percent"`
}

// echo returns a run's inputs unchanged, after the requested number of progress events. It does not
// repeat those on the log. The n-th is due n intervals after the run was started, whichever worker
// writes it: a long wait for it does not occupy a worker's slot.
func (r *Runs) echo(ctx context.Context, st *ledger.State, run schemas.Run, stop call.Stop) (settle.Outcome, error) {
	if len(run.Inputs) == 0 {
		run.Inputs = json.RawMessage("{}")
	}
	in, err := schemas.ReadEcho(run.Inputs)
	if err != nil {
		return failed(schemas.OutcomeFailed, schemas.TaskFailed, schemas.RunError{
			Code: string(schemas.ValidationError), Message: "ECHO does not take its inputs: " + echoMember(err) + err.Error(),
		}, details{Code: schemas.ValidationError})
	}
	start := began(st)
	for step := st.Progress + 1; step <= in.Steps; step++ {
		due := start.Add(time.Duration(step) * in.Interval)
		if err := r.until(ctx, st, stop, due); err != nil {
			return early(err)
		}
		if err := r.progress(ctx, st, echoStep{Step: step, Steps: in.Steps, Percent: 100 * step / in.Steps}); err != nil {
			return settle.Outcome{}, err
		}
	}
	return settle.Outcome{Outcome: schemas.OutcomeSucceeded, Result: schemas.RunResult{Outputs: run.Inputs}}, nil
}

// echoMember names the member that an error is about.
func echoMember(err error) string {
	if own, ok := errors.AsType[*schemas.EchoError](err); ok {
		return own.Member + " "
	}
	return ""
}

// began is when the run was started.
func began(st *ledger.State) time.Time {
	for _, ev := range st.Events {
		if ev.Type == schemas.EventStarted {
			return ev.Time
		}
	}
	return st.Action.AcceptedAt
}

// until waits for a time, in the slot if it is near. Its error is *overError where
// the run ends before, and *call.Deferral where the time is far.
func (r *Runs) until(ctx context.Context, st *ledger.State, stop call.Stop, due time.Time) error {
	wait := call.Within(st, time.Until(due))
	if wait <= inline {
		if err := call.Await(ctx, wait, stop.Done(), r.cfg.Draining, nil); err != nil {
			return err
		}
	}
	if canceled, over := call.Over(st, stop, time.Now()); over {
		return ends(stopped(canceled))
	}
	if wait > inline {
		return &call.Deferral{Until: time.Now().Add(wait), Reason: schemas.WaitDelay}
	}
	return nil
}

func (r *Runs) progress(ctx context.Context, st *ledger.State, data any) error {
	raw, err := ledger.Encode(data)
	if err != nil {
		return err
	}
	doc, err := ledger.Encode(schemas.RunProgress{Name: schemas.RunEventProgress, Data: raw})
	if err != nil {
		return err
	}
	return r.ledger.Append(ctx, st, schemas.Event{Type: schemas.EventProgress, Data: doc})
}
