// Package passthrough performs actions of kind passthrough: one call as its caller sent it, whose
// answer is written to the log as a whole if it is there soon, and otherwise while it arrives.
package passthrough

import (
	"cmp"
	"context"
	"errors"
	"time"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/processors/call"
	"weir/processors/call/direct"
	"weir/processors/executor"
	"weir/processors/settle"
	"weir/schemas"
)

// Passthrough performs kind passthrough. It is safe for concurrent use.
type Passthrough struct {
	*executor.Executor

	events  call.Events
	adapter *direct.Adapter
	options direct.PassOptions // of each call, but for Part
}

// New returns an executor of calls that calls makes by adapter. Parts of answers go to events. Of
// options, Hold defaults to 50 ms, and Part is not set.
func New(calls *executor.Executor, adapter *direct.Adapter, events call.Events, options direct.PassOptions) *Passthrough {
	options.Hold = cmp.Or(options.Hold, 50*time.Millisecond)
	return &Passthrough{calls, events, adapter, options}
}

// Execute makes the action's call. The deadline of the action bounds each attempt.
func (p *Passthrough) Execute(ctx context.Context, st *ledger.State, stop call.Stop) (settle.Outcome, error) {
	c, err := call.Payload[schemas.HTTPCall](st, "a call")
	if err == nil && c.BodyBlob != "" {
		err = p.stored(ctx, c.BodyBlob)
	}
	if err != nil {
		return settle.Outcome{}, err
	}
	o := p.options
	o.Part = func(ctx context.Context, part schemas.AnswerPart) error { return p.write(ctx, st, part) }
	return p.Make(ctx, st, c, stop, p.adapter.Passing(o), schemas.MaxRunTimeout)
}

// stored returns an error if a body that is stored apart cannot be read.
func (p *Passthrough) stored(ctx context.Context, name string) error {
	body, _, err := p.options.Body(ctx, name)
	if errors.Is(err, fault.ErrNotFound) {
		return &fault.Terminal{Code: schemas.Poison, Reason: "the object of the request's body is missing", Cause: err}
	}
	if err == nil {
		err = body.Close()
	}
	return err
}

// write writes a part of an answer to the log. The first is shown only after a barrier: once it is on
// the log, no other attempt follows while its worker lives. A request to stop ends a safe call only.
func (p *Passthrough) write(ctx context.Context, st *ledger.State, part schemas.AnswerPart) error {
	data, err := ledger.Encode(part)
	if err != nil {
		return err
	}
	err = call.Relay(ctx, p.events, st, schemas.Event{Type: schemas.EventDelta, First: part.Status != 0, Data: data})
	if open := st.Open(); errors.Is(err, call.ErrStopped) && open != nil && open.Class != schemas.ClassSafe {
		return nil
	}
	return err
}
