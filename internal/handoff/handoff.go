// Package handoff passes the body of a request to the worker of its action, past the
// log: a pack may have gigabytes. What is handed over is only on this node, so that only
// this node's worker can do the action's work.
package handoff

import (
	"io"
	"sync"

	"weir/schemas"
)

// Hand is what one request has to give.
type Hand struct {
	// Body is what the client sends. It fails when the client is gone.
	Body io.Reader
	// Progress takes what the client is to see while the work goes on; it may be called from any goroutine until
	// the hand is let go. Whoever takes the hand always has one: calls of it come one
	// at a time to what was offered, and those that come behind done do nothing.
	Progress func([]byte)
}

// Hands holds what is offered. It is safe for concurrent use.
type Hands struct {
	mu      sync.Mutex
	offered map[schemas.Ref]*offer
}

// offer is one hand, until nobody holds it any more.
type offer struct {
	hand  Hand
	taken bool
	free  chan struct{} // closed when the taker lets go
}

// New returns Hands that hold nothing.
func New() *Hands { return &Hands{offered: map[schemas.Ref]*offer{}} }

// Offer holds a hand for the worker of an action. Withdraw takes it back, and if a worker has it waits until
// that one lets go: only then may the request end. It may be called twice, also at once, and waits each time.
// An action has one hand: of another that is offered meanwhile nothing is ever taken.
func (h *Hands) Offer(ref schemas.Ref, hand Hand) (withdraw func()) {
	o := &offer{hand: hand, free: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.offered[ref] != nil {
		return func() {}
	}
	h.offered[ref] = o
	return func() { h.withdraw(ref, o) }
}

func (h *Hands) withdraw(ref schemas.Ref, o *offer) {
	h.mu.Lock()
	taken := o.taken
	if !taken && h.offered[ref] == o {
		delete(h.offered, ref)
	}
	h.mu.Unlock()
	if taken {
		<-o.free
	}
}

// Here reports whether an action's hand is on this node, taken or not. One that was
// let go is not.
func (h *Hands) Here(ref schemas.Ref) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.offered[ref] != nil
}

// Take gives a hand out, once. The taker calls done when it will touch it no more; done
// waits for a call of Progress that is under way, and may be called twice.
func (h *Hands) Take(ref schemas.Ref) (hand Hand, done func(), ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.offered[ref]
	if o == nil || o.taken {
		return Hand{}, func() {}, false
	}
	o.taken = true
	g := &gate{fn: o.hand.Progress}
	hand = Hand{Body: o.hand.Body, Progress: g.pass}
	return hand, sync.OnceFunc(func() {
		g.shut()
		h.mu.Lock()
		delete(h.offered, ref)
		h.mu.Unlock()
		close(o.free)
	}), true
}

// gate lets nothing through to a request that may have ended.
type gate struct {
	mu sync.Mutex
	fn func([]byte)
}

func (g *gate) pass(p []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fn != nil {
		g.fn(p)
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fn = nil
}
