package runs

import (
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

// An agent that failed so many times in a row is paused for so long.
const (
	tolerated  = 5
	quarantine = 10 * time.Second
)

// breaker counts an agent's consecutive failures. Too many open it: no call passes for a while,
// then a single probe. Its result closes the breaker, or keeps it open for the same time again. It
// is safe for concurrent use.
//
// The states and their times are the library's. It does not match results to calls, and does not
// know calls without a result or with an early one; breaker translates these for it.
type breaker struct {
	mu    sync.Mutex // held over what asks the library more than once
	state circuitbreaker.CircuitBreaker[any]
	// probed is when the newest probe was let through.
	probed time.Time
}

// newBreaker returns one that is closed. changed hears whether it is open now, and
// may hear the same twice.
func newBreaker(changed func(open bool)) *breaker {
	return &breaker{state: circuitbreaker.NewBuilder[any]().
		WithFailureThreshold(tolerated).WithSuccessThreshold(1).WithDelay(quarantine).
		OnOpen(func(circuitbreaker.StateChangedEvent) { changed(true) }).
		OnClose(func(circuitbreaker.StateChangedEvent) { changed(false) }).
		Build()}
}

// remaining is how long no call is let through yet.
func (b *breaker) remaining() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state.RemainingDelay()
}

// acquire lets a call through, or not. probe: it is the one alone. A probe that was silent
// for the quarantine holds no other up: a synchronous run may be silent for hours.
func (b *breaker) acquire() (probe, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ok = b.state.TryAcquirePermit()
	if !ok && b.state.IsHalfOpen() && time.Since(b.probed) >= quarantine {
		b.state.Open()
		b.state.HalfOpen()
		ok = b.state.TryAcquirePermit()
	}
	if probe = ok && b.state.IsHalfOpen(); probe {
		b.probed = time.Now()
	}
	return probe, ok
}

// success is a call that shows the agent well, whenever it began.
func (b *breaker) success() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state.IsClosed() {
		b.state.RecordSuccess()
		return
	}
	b.state.Close()
}

// trial is a probe that is being answered. Others may call now, but the next
// failure is one too many again.
func (b *breaker) trial() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state.Close()
	for range tolerated - 1 {
		b.state.RecordFailure()
	}
}

// failure is a call that speaks against the agent. One that began before the
// breaker opened says nothing new: the probe alone decides then.
func (b *breaker) failure(probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if probe || b.state.IsClosed() {
		b.state.RecordFailure()
	}
}

// returned is a probe that has shown nothing. If it was sent, the next comes after as long again;
// otherwise the next call takes its place: the library takes no permit back, but gives a new one
// with the state.
func (b *breaker) returned(sent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.state.IsHalfOpen() {
		return
	}
	b.state.Open()
	if !sent {
		b.state.HalfOpen()
	}
}
