package rules

import (
	"context"
	"errors"

	"weir/internal/fault"
	"weir/schemas"
)

// Reset puts an empty set, in which GlobalActive holds, in the place of a tenant's
// newest where that cannot be read, whatever it was. fault.ErrFenced: it can be
// read, or another was written meanwhile; nothing was written then. Otherwise it is
// as Put.
func (k *Keeper) Reset(ctx context.Context, tenant, by string) (Snapshot, error) {
	damaged, err := k.Newest(ctx, tenant)
	switch {
	case err == nil:
		return Snapshot{}, fault.ErrFenced
	case !errors.Is(err, ErrUnreadable):
		return Snapshot{}, err
	}
	return k.Put(ctx, tenant, schemas.RuleSet{GlobalActive: true, By: by}, damaged.Revision)
}
