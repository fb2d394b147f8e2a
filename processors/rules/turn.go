package rules

import (
	"context"
	"sync"
)

// turns lets one at a time of each tenant go on. A write costs as much as its set
// is large: the losers of a race would each pay for all of it, and other tenants
// would wait for them.
type turns struct {
	mu sync.Mutex
	of map[string]*turn
}

type turn struct {
	taken chan struct{} // holds one element while the turn is taken
	users int           // who have it or wait for it
}

func newTurns() *turns { return &turns{of: map[string]*turn{}} }

// take waits for the tenant's turn, which lasts until over is called; or for the end
// of ctx, whose error it gives then.
func (t *turns) take(ctx context.Context, tenant string) (over func(), err error) {
	t.mu.Lock()
	own := t.of[tenant]
	if own == nil {
		own = &turn{taken: make(chan struct{}, 1)}
		t.of[tenant] = own
	}
	own.users++
	t.mu.Unlock()
	select {
	case own.taken <- struct{}{}:
		return func() {
			<-own.taken
			t.leave(tenant, own)
		}, nil
	case <-ctx.Done():
		t.leave(tenant, own)
		return nil, ctx.Err()
	}
}

func (t *turns) leave(tenant string, own *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(t.of, tenant)
	}
}
