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
	if r.Refusal == nil {
		if st, err = a.commit(ctx, action, r.Commit); st != nil || err != nil {
			return st, true, err
		}
		return a.ledger.Claim(ctx, action)
	}
	st, err = a.ledger.Existing(ctx, action)
	if errors.Is(err, fault.ErrNotFound) {
		err = r.Refusal
	}
	return st, true, err
}

// commit calls a request's Commit unless there is an action to join, which it returns.
func (a *Acceptor) commit(ctx context.Context, action schemas.Action, commit func(context.Context) error) (*ledger.State, error) {
	if commit == nil {
		return nil, nil //nolint:nilnil // nothing to do, no error
	}
	if action.IDSource != schemas.IDGenerated {
		if st, err := a.ledger.Existing(ctx, action); !errors.Is(err, fault.ErrNotFound) {
			return st, err
		}
	}
	return nil, commit(ctx)
}
