package guard

import (
	"context"
	"maps"
	"slices"
	"sync"

	"weir/schemas"
)

// starting tracks the permitted calls that have not started. A call reads a secret and waits for the
// scheduler between the last policy check and its first byte; without it a reload could be
// acknowledged in between.
type starting struct {
	mu    sync.Mutex
	calls map[chan struct{}]bool // each is closed when its call leaves
}

// add counts a call in until it leaves; leaving again does nothing.
func (g *starting) add() (leave func()) {
	left := make(chan struct{})
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calls == nil {
		g.calls = make(map[chan struct{}]bool)
	}
	g.calls[left] = true
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.calls[left] {
			delete(g.calls, left)
			close(left)
		}
	}
}

// Begin is Renew at the last moment: a permitted call must begin at once. Call leave when its first
// byte is sent or the call is given up; repeated calls are allowed.
func (g *Guard) Begin(p Pass) (fresh Pass, d schemas.Decision, leave func()) {
	leave = g.starting.add() // before the policy is read: see Settle
	fresh, d = g.Renew(p)
	return fresh, d, leave
}

// Settle returns when every call that Begin permitted under a former policy has started or was
// given up. Call it after the policy was exchanged: from then on no call starts that the new one
// denies. New calls do not wait for it.
func (g *Guard) Settle(ctx context.Context) error {
	g.starting.mu.Lock()
	earlier := slices.Collect(maps.Keys(g.starting.calls))
	g.starting.mu.Unlock()
	for _, left := range earlier {
		select {
		case <-left:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
