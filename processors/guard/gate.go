package guard

import (
	"context"
	"sync"

	"weir/schemas"
)

// gate tracks the permitted calls that have not started. A call reads a secret and waits for the
// scheduler between the last policy check and its first byte; without the gate a reload could be
// acknowledged in between.
type gate struct {
	mu      sync.Mutex
	now     *epoch
	earlier []*epoch // settled ones that were not empty yet
}

// epoch is the calls that passed between two reloads.
type epoch struct {
	passing int
	closed  bool // no more will join
	empty   chan struct{}
}

// enter counts a call in until it leaves; leaving again does nothing.
func (g *gate) enter() (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now == nil {
		g.now = &epoch{empty: make(chan struct{})}
	}
	e, once := g.now, sync.Once{}
	e.passing++
	return func() {
		once.Do(func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			e.passing--
			e.settle()
		})
	}
}

func (e *epoch) settle() {
	if e.closed && e.passing == 0 {
		close(e.empty)
	}
}

// turn begins a new epoch and returns those before it that still hold calls.
func (g *gate) turn() []*epoch {
	g.mu.Lock()
	defer g.mu.Unlock()
	open := g.earlier[:0:0]
	for _, e := range g.earlier {
		if e.passing > 0 {
			open = append(open, e)
		}
	}
	if e := g.now; e != nil {
		g.now, e.closed = nil, true
		e.settle()
		if e.passing > 0 {
			open = append(open, e)
		}
	}
	g.earlier = open
	return append([]*epoch(nil), open...)
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
	for _, e := range g.gate.turn() {
		select {
		case <-e.empty:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
