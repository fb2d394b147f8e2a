package processors

import (
	"context"
	"errors"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

// ended reports a durable end.
func (p *Pipeline) ended(ctx context.Context, st *ledger.State) error {
	if !st.Started && st.Action.Supersedes != "" { // ingress has canceled it
		if err := p.link(ctx, st); err != nil {
			return err
		}
	}
	if ended := p.Kinds[st.Kind].Ended; ended != nil {
		if err := ended(ctx, st); err != nil {
			return err
		}
	}
	if p.Ended != nil {
		p.Ended(ctx, st)
	}
	return nil
}

// attest stores the missing evidence of an ended action's attempts: a power cut may have kept the end
// and lost evidence that was stored before it. One sync covers both, and a device writes unsynced data
// in any order. The message was not acknowledged before that sync, so it is redelivered. An action
// whose payload cannot be read keeps the evidence that it has.
func (p *Pipeline) attest(ctx context.Context, st *ledger.State) error {
	kind, known := p.Kinds[st.Kind]
	if !known || st.Open() != nil || st.Action.PayloadBlob != "" {
		return nil
	}
	records, err := kind.Evidence(st)
	if _, terminal := errors.AsType[*fault.Terminal](err); terminal {
		return nil
	}
	if err != nil || len(records) == 0 {
		return err
	}
	if err := p.Evidence.Store(ctx, st, records...); err != nil {
		return err
	}
	return p.Barrier(ctx)
}

// links is how many times the name of a successor is written while others write to its predecessor.
const links = 4

// link writes the name of a successor to its predecessor, unless it has it. The worker does this,
// not the ingress that accepted the successor: the worker's message is redelivered until it is
// done, so no crash loses the name. A predecessor that the log has dropped is skipped.
func (p *Pipeline) link(ctx context.Context, st *ledger.State) error {
	ref := schemas.Ref{Tenant: st.Tenant, Kind: st.Kind, ID: st.Action.Supersedes}
	for n := 1; ; n++ {
		before, err := p.Ledger.Load(ctx, ref)
		switch {
		case errors.Is(err, fault.ErrNotFound), errors.Is(err, fault.ErrGone):
			return nil
		case err != nil:
			return err
		case before.SupersededBy != "" || before.Settled == nil:
			return nil
		}
		err = p.Ledger.Append(ctx, before, schemas.Event{Type: schemas.EventSuperseded, Superseded: &schemas.Superseded{By: st.ID}})
		if errors.Is(err, fault.ErrFenced) && n < links {
			continue
		}
		if err != nil {
			return err
		}
		return p.Barrier(ctx)
	}
}
