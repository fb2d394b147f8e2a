package chat

import (
	"context"
	"errors"

	"weir/internal/completion"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/models"
	"weir/processors/call"
	"weir/processors/call/model"
	"weir/processors/settle"
	"weir/schemas"
)

// attempt calls one candidate. Its result is read from the log; only a policy decision before the first
// attempt is not there, and is kept here.
func (w *work) attempt(ctx context.Context, set *models.Set, c models.Candidate) error {
	step := w.step()
	t := w.task(step)
	var err error
	if t.Call, err = w.request(c); err != nil {
		return err
	}
	writer := w.newDeltaWriter()
	t.Via = w.cfg.Adapter.For(model.CallOptions{
		Options: w.options(), Dialect: w.order.Dialect, Stream: w.order.Stream,
		Connect: c.Model.Timeouts.Connect, FirstByte: c.Model.Timeouts.FirstByte, Idle: c.Model.Timeouts.Idle,
		Chunk: func(ctx context.Context, p model.Piece) error { return w.chunk(ctx, writer, p) },
		Broke: func(used *schemas.ChatUsage) { w.reported[step] = used },
		Done:  writer.close,
	})
	w.made[step] = c
	r, err := w.caller.Run(ctx, t)
	if err != nil || !r.Denied {
		return err
	}
	if w.cfg.Models() != set {
		return nil // it may stand elsewhere now, and the policy that denied be that of there
	}
	if len(w.denied) == 0 {
		w.refusal = r.Decision
	}
	w.denied[targetOf(c)], w.floor = true, step+1
	delete(w.made, step)
	return settle.Deny(ctx, w.recorder, t, r.Decision)
}

// task is the call of a step, but for what is asked and how.
func (w *work) task(step int) *call.Task {
	return &call.Task{
		State: w.st, Step: step, Attempts: 1, KeyRequired: true, Agent: true, Abort: true, Stop: w.stop, TaskID: w.order.TaskID,
		Timeout: schemas.MaxRunTimeout,                                                                                   // the action's deadline is the bound
		Record:  func(ctx context.Context, _ ledger.Attempt) error { return w.storeEvidence(ctx, len(w.st.Attempts)-1) }, // the newest
	}
}

// request is the call of a candidate: the caller's own request, but for the model's name there and
// what its dialect has Weir change.
func (w *work) request(c models.Candidate) (schemas.HTTPCall, error) {
	o := w.order
	change := completion.Change{Model: c.Send}
	switch o.Dialect.Family() {
	case schemas.DialectChat:
		change.Usage = o.Stream && c.Upstream.Usage
	case schemas.DialectResponses:
		change.Drop = []string{"background"} // the caller reads later, and the provider answers at once
		change.Previous = o.PreviousID
	default:
	}
	body, err := completion.Request(o.Body, change)
	if err != nil {
		return schemas.HTTPCall{}, &fault.Terminal{Code: schemas.Poison, Reason: "the request of a completion is no object", Cause: err}
	}
	accept := "application/json"
	if o.Stream {
		accept = "text/event-stream"
	}
	return schemas.HTTPCall{
		Method: "POST", URL: c.Upstream.URL + o.Dialect.Route(), AllowlistKey: schemas.ModelEntry(c.Upstream.Name), Body: body,
		Headers: append([]schemas.Header{{Name: "accept", Value: accept}}, o.Headers...),
	}, nil
}

// chunk takes the next chunk of the answer. An answer that is larger than what its budget
// bears ends with the chunk that is.
func (w *work) chunk(ctx context.Context, to *deltaWriter, p model.Piece) error {
	if p.Raw != nil {
		if err := to.put(ctx, p.Raw); err != nil {
			return err
		}
	}
	if limit := w.limit(); limit > 0 && p.Output > limit {
		return &fault.Call{Code: schemas.BudgetExhausted, Sent: true, Cause: errCut}
	}
	return nil
}

var errCut = errors.New("the answer is larger than what was held for it")
