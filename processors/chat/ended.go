package chat

import (
	"context"
	"errors"
	"slices"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/processors/call/model"
	"weir/schemas"
)

// Ended settles the budgets of a completion that ended without a verdict of Execute's, and
// frees what is held of one whose budgets were settled: it was held too late, by a worker
// that did not know of the end yet.
func (c *Chat) Ended(ctx context.Context, st *ledger.State) error {
	s := st.Settled
	if s == nil {
		return nil
	}
	evaluated := s.Result != nil || s.ResultBlob != ""
	if evaluated && st.Inherited < st.N { // this worker has just written the end, behind the settling
		return nil
	}
	if st.Action.Payload == nil { // the payload of an already settled action is not read
		doc, err := c.ledger.Blob(ctx, nil, st.Action.PayloadBlob)
		if err != nil && !errors.Is(err, fault.ErrNotFound) {
			return err
		}
		st.Action.Payload = doc
	}
	order, err := payload(st)
	if err != nil {
		return nil //nolint:nilerr // what cannot be read has held nothing, or its object is gone
	}
	w := c.work(st, order)
	var used *schemas.ChatUsage
	if !evaluated {
		if used, err = w.owed(ctx); err != nil {
			return err
		}
	}
	return w.pay(ctx, used)
}

// owed is what a completion has used that was put aside. An attempt that was left open was
// made, for all that is known; and where it is put aside because the log's word on an
// attempt cannot be read, that attempt is charged like one of which there is none.
func (w *work) owed(ctx context.Context) (*schemas.ChatUsage, error) {
	st := *w.st
	st.Attempts = slices.Clone(st.Attempts)
	w.st = &st
	for at, t := range st.Attempts {
		unknown := schemas.Attempted{Step: t.Step, Number: t.Number, Hop: t.Hop, Code: schemas.Interrupted, Sent: true}
		if t.Result == nil {
			st.Attempts[at].Result = &unknown
		}
		if _, err := w.charge(ctx, at); unreadable(err) {
			st.Attempts[at].Result, w.partial = &unknown, &model.Response{}
		} else if err != nil {
			return nil, err
		}
	}
	return w.used(ctx)
}

func unreadable(err error) bool {
	_, parked := errors.AsType[*fault.Terminal](err)
	return parked || errors.Is(err, fault.ErrNotFound)
}
