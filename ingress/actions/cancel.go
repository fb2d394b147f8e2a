package actions

import (
	"context"
	"encoding/json"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

const canceledMessage = "the action was canceled before it was started; nothing was sent"

// Cancel stops an action. One that nobody has begun is settled canceled at
// once; a running one is asked to stop, and ends by its worker's word: it may
// still succeed. A settled one is CONFLICT, with its status.
func (c *Control) Cancel(ctx context.Context, tenant, id string) (Status, error) {
	s, err := c.do(ctx, tenant, id, cancel)
	if err == nil && s.CancelRequested {
		c.cfg.Nudge(s.ref)
	}
	return s, err
}

func cancel(st *ledger.State) (schemas.Event, error) {
	switch {
	case st.Settled != nil:
		return schemas.Event{}, fault.New(schemas.Conflict, "the action has ended already: "+st.Status())
	case st.Damaged != nil:
		return schemas.Event{}, fault.New(schemas.Conflict, "a record of this action cannot be read; a worker will park it and end it")
	case st.Started:
		if st.CancelRequested {
			return schemas.Event{}, errUnchanged
		}
		return schemas.Event{Type: schemas.EventCancel}, nil
	default:
		settled := &schemas.Settled{Outcome: schemas.OutcomeCanceled, Code: schemas.Canceled, Message: canceledMessage}
		var err error
		settled.Result, err = canceled(st)
		return schemas.Event{Type: schemas.EventSettled, Settled: settled}, err
	}
}

// canceled is the result document of a kind whose actions have one for every
// outcome.
func canceled(st *ledger.State) (json.RawMessage, error) {
	switch st.Kind {
	case schemas.KindHTTP:
		return json.Marshal(schemas.HTTPResult{Variant: schemas.VariantCanceled, Message: canceledMessage})
	case schemas.KindRun:
		return json.Marshal(schemas.RunResult{Error: &schemas.RunError{
			Code: string(schemas.TaskFailed), Message: canceledMessage,
			Details: json.RawMessage(`{"code":"` + string(schemas.Canceled) + `"}`),
		}})
	case schemas.KindRule:
		var order schemas.RuleOrder
		_ = json.Unmarshal(st.Action.Payload, &order) // where it lies aside, the answer repeats what its request said
		return ledger.Encode(schemas.RuleResult{Operation: order.Operation, RequestID: order.RequestID, Error: &schemas.AgentError{
			Code: schemas.InternalError, Message: canceledMessage, Detail: string(schemas.Canceled),
		}})
	default:
		return nil, nil
	}
}
