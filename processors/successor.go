package processors

import (
	"context"
	"errors"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

// links is how often the name of a successor is written while others write to its predecessor.
const links = 4

// link writes the name of a successor to its predecessor, unless it is there. The worker does
// this rather than the ingress that accepted the successor: the worker's message is redelivered
// until it is done, so no crash loses the name. A predecessor that the log has dropped is skipped.
func (p *Pipeline) link(ctx context.Context, st *ledger.State) error {
	if st.Action.Supersedes == "" {
		return nil
	}
	ref := schemas.Ref{Tenant: st.Tenant, Kind: st.Kind, ID: st.Action.Supersedes}
	for n := 1; ; n++ {
		before, err := p.ledger.Load(ctx, ref)
		switch {
		case errors.Is(err, fault.ErrNotFound), errors.Is(err, fault.ErrGone):
			return nil
		case err != nil:
			return err
		case before.SupersededBy != "" || before.Settled == nil:
			return nil
		}
		err = p.ledger.Append(ctx, before, schemas.Event{Type: schemas.EventSuperseded, Superseded: &schemas.Superseded{By: st.ID}})
		if errors.Is(err, fault.ErrFenced) && n < links {
			continue
		}
		if err != nil {
			return err
		}
		return p.Barrier(ctx)
	}
}
