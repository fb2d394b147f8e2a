package processors

import (
	"context"
	"errors"

	"weir/internal/fault"
	"weir/internal/ledger"
)

// complete repeats the side effects of an end that is on the log already: its worker may have died
// before it reported the end. Also, a power cut may have kept the end and lost evidence that was
// stored before it: one sync covers both, and a device writes unsynced data in any order. The
// message was not acknowledged before that sync, so it is redelivered.
func (p *Pipeline) complete(ctx context.Context, st *ledger.State) error {
	if err := p.attest(ctx, st); err != nil {
		return err
	}
	return p.ended(ctx, st)
}

// attest leaves what is missing of an ended action's evidence, as its attempts call for.
// An action whose payload cannot be read, or is not at hand, has only what it has.
func (p *Pipeline) attest(ctx context.Context, st *ledger.State) error {
	kind, known := p.Kinds[st.Kind]
	if !known || st.Open() != nil || st.Action.PayloadBlob != "" {
		return nil
	}
	records, err := kind.Evidence(st)
	if _, parked := errors.AsType[*fault.Terminal](err); parked {
		return nil
	}
	if err != nil || len(records) == 0 {
		return err
	}
	if err := p.Evidence.Leave(ctx, st, records...); err != nil {
		return err
	}
	return p.Barrier(ctx)
}
