package guard

import (
	"context"
	"maps"
	"slices"
	"sync"

	"weir/schemas"
)

// gate tracks the permitted calls that have not started. A call reads a secret and waits for the
// scheduler between the last policy check and its first byte; without the gate a reload could be
// acknowledged in between.
type gate struct {
	mu      sync.Mutex
	passing map[chan struct{}]bool // each is closed when its call leaves
}

// enter counts a call in until it leaves; leaving again does nothing.
func (g *gate) enter() (leave func()) {
	left := make(chan struct{})
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.passing == nil {
		g.passing = make(map[chan struct{}]bool)
	}
	g.passing[left] = true
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.passing[left] {
			delete(g.passing, left)
			close(left)
		}
	}
}

// Begin is Renew at the last moment: a permitted call must begin at once. Call leave when its first
// byte is sent or the call is given up; repeated calls are allowed.
func (g *Guard) Begin(p Pass) (fresh Pass, d schemas.Decision, leave func()) {
	leave = g.gate.enter() // before the policy is read: see Settle
	fresh, d = g.Renew(p)
	return fresh, d, leave
}

// Settle returns when every call that Begin let pass under a policy that is no
// longer in force has begun or was given up. Call it after the policy was
// exchanged: from then on no call begins that the new one denies. New calls do
// not wait for it.
func (g *Guard) Settle(ctx context.Context) error {
	g.gate.mu.Lock()
	earlier := slices.Collect(maps.Keys(g.gate.passing))
	g.gate.mu.Unlock()
	for _, left := range earlier {
		select {
		case <-left:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
