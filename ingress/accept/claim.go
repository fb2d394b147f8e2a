package accept

import (
	"context"
	"errors"

	"weir/internal/failpoint"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

// claim claims the name, or finds the action that has it. With a refusal it only finds: the refusal
// is the error if there is no action.
func (a *Acceptor) claim(ctx context.Context, action schemas.Action, r Request) (st *ledger.State, duplicate bool, err error) {
	if r.Before != nil {
		r.Before(schemas.Ref{Tenant: action.Tenant, Kind: action.Kind, ID: action.ID})
	}
	failpoint.At(failpoint.Claiming, action.ID)
	defer failpoint.At(failpoint.Claimed, action.ID)
	if r.Refusal != nil || r.Commit != nil && action.IDSource != schemas.IDGenerated {
		if st, err = a.ledger.Existing(ctx, action); !errors.Is(err, fault.ErrNotFound) {
			return st, true, err
		}
	}
	if err = r.Refusal; err == nil && r.Commit != nil {
		err = r.Commit(ctx)
	}
	if err != nil {
		return nil, true, err
	}
	return a.ledger.Claim(ctx, action)
}
