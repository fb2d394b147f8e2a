package rules

import (
	"context"
	"sync"
)

// tenantLocks lets one at a time of each tenant go on. A write costs as much as its set
// is large: the losers of a race would each pay for all of it, and other tenants
// would wait for them.
type tenantLocks struct {
	mu sync.Mutex
	of map[string]*tenantLock
}

type tenantLock struct {
	locked chan struct{} // holds one element while the turn is taken
	users  int           // who have it or wait for it
}

func newTenantLocks() *tenantLocks { return &tenantLocks{of: map[string]*tenantLock{}} }

// lock waits for the tenant's turn, which lasts until over is called; or for the end
// of ctx, whose error it gives then.
func (t *tenantLocks) lock(ctx context.Context, tenant string) (over func(), err error) {
	t.mu.Lock()
	own := t.of[tenant]
	if own == nil {
		own = &tenantLock{locked: make(chan struct{}, 1)}
		t.of[tenant] = own
	}
	own.users++
	t.mu.Unlock()
	select {
	case own.locked <- struct{}{}:
		return func() {
			<-own.locked
			t.release(tenant, own)
		}, nil
	case <-ctx.Done():
		t.release(tenant, own)
		return nil, ctx.Err()
	}
}

func (t *tenantLocks) release(tenant string, own *tenantLock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(t.of, tenant)
	}
}
