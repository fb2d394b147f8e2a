package runs

import (
	"sync"
	"time"
)

// An agent that failed so many times in a row is paused for so long.
const (
	tolerated  = 5
	quarantine = 10 * time.Second
)

// breaker counts an agent's consecutive failures. Too many open it: no call passes for a while,
// then a single probe. Its result closes the breaker, or keeps it open for the same time again. It
// is safe for concurrent use.
type breaker struct {
	// changed hears whether it is open now, and may hear the same twice.
	changed func(open bool)

	mu       sync.Mutex
	failures int       // in a row; it is open at tolerated
	until    time.Time // when the first probe may pass, if it is open
	probed   time.Time // when the newest probe was let through; zero: none is under way
}

func (b *breaker) open() bool { return b.failures >= tolerated }

// remaining is how long no call is let through yet.
func (b *breaker) remaining() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open() {
		return 0
	}
	return max(0, time.Until(b.until))
}

// acquire lets a call through, or not. probe: it is the one alone. A probe that was silent
// for the quarantine holds no other up: a synchronous run may be silent for hours.
func (b *breaker) acquire() (probe, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch now := time.Now(); {
	case !b.open():
		return false, true
	case now.Before(b.until), now.Sub(b.probed) < quarantine:
		return false, false
	default:
		b.probed = now
		return true, true
	}
}

// close has calls pass after some failures.
func (b *breaker) close(failures int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open() {
		b.probed = time.Time{}
		b.changed(false)
	}
	b.failures = failures
}

// success is a call that shows the agent well, whenever it began.
func (b *breaker) success() { b.close(0) }

// trial is a probe that is being answered. Others may call now, but the next
// failure is one too many again.
func (b *breaker) trial() { b.close(tolerated - 1) }

// failure is a call that speaks against the agent. One that began before the breaker opened says
// nothing new: the probe alone decides then. A probe that was overtaken, if no other is under way,
// says nothing new either.
func (b *breaker) failure(probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open() && (!probe || b.probed.IsZero()) {
		return
	}
	if b.failures++; b.open() {
		b.until, b.probed = time.Now().Add(quarantine), time.Time{}
		b.changed(true)
	}
}

// returned is a probe that has shown nothing. If it was sent, the next comes after as long again;
// otherwise the next call takes its place.
func (b *breaker) returned(sent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.probed.IsZero() { // it is closed, or another probe has decided
		return
	}
	if b.probed = (time.Time{}); sent {
		b.until = time.Now().Add(quarantine)
	}
}

// retire ends the reports: nothing is open any more, as far as they go.
func (b *breaker) retire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changed(false)
	b.changed = func(bool) {}
}
