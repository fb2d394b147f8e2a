package processors

import (
	"context"
	"errors"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/processors/settle"
	"weir/schemas"
)

// ended reports a durable end.
func (p *Pipeline) ended(ctx context.Context, st *ledger.State) error {
	if err := p.link(ctx, st); err != nil { // of an action that ingress has canceled
		return err
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

// endedBefore reports an end again whose worker may have died before it did, and stores the missing
// evidence: a power cut may have kept the end and lost evidence that was stored before it. One sync
// covers both, and a device writes unsynced data in any order. The message was not acknowledged
// before that sync, so it is redelivered. A plan whose payload cannot be read keeps the evidence
// that it has.
func (p *Pipeline) endedBefore(ctx context.Context, st *ledger.State) error {
	if _, known := p.Kinds[st.Kind]; known && st.Open() == nil && st.Action.PayloadBlob == "" {
		missing, err := p.attest(ctx, st)
		if err == nil && missing {
			err = p.Barrier(ctx)
		}
		if _, terminal := errors.AsType[*fault.Terminal](err); err != nil && !terminal {
			return err
		}
	}
	return p.ended(ctx, st)
}

// attest stores the evidence of an action's attempts that is missing, and reports whether any may be.
func (p *Pipeline) attest(ctx context.Context, st *ledger.State) (missing bool, err error) {
	var records []schemas.Evidence
	if kind, own := p.Kinds[st.Kind].Executor.(Attester); own {
		records, err = kind.Evidence(st)
	} else {
		records, err = settle.Records(st, settle.Made)
	}
	if err != nil || len(records) == 0 {
		return false, err
	}
	return true, p.Evidence.Store(ctx, st, records...)
}

// link writes the name of a successor to its predecessor, unless it has it. The worker does this,
// not the ingress that accepted the successor: the worker's message is redelivered until it is
// done, so no crash loses the name. A predecessor that the log has dropped is skipped.
func (p *Pipeline) link(ctx context.Context, st *ledger.State) error {
	if st.Started || st.Action.Supersedes == "" {
		return nil
	}
	before, err := p.Ledger.Load(ctx, schemas.Ref{Tenant: st.Tenant, Kind: st.Kind, ID: st.Action.Supersedes})
	switch {
	case errors.Is(err, fault.ErrNotFound), errors.Is(err, fault.ErrGone):
		return nil
	case err != nil:
		return err
	case before.SupersededBy != "" || before.Settled == nil:
		return nil
	}
	err = p.Ledger.Append(ctx, before, schemas.Event{Type: schemas.EventSuperseded, Superseded: &schemas.Superseded{By: st.ID}})
	if err != nil {
		return err
	}
	return p.Barrier(ctx)
}
