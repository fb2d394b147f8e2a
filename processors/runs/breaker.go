package runs

import (
	"sync"
	"time"
)

// An agent that failed so many times in a row is left alone for so long.
const (
	tolerated  = 5
	quarantine = 10 * time.Second
)

// breaker counts an agent's consecutive failures. Too many open it: no call passes for a while,
// then a single probe. Its result closes the breaker, or keeps it open for the same time again. It
// is safe for concurrent use.
type breaker struct {
	changed func(open bool) // receives whether it is open now, also where that is the same

	mu       sync.Mutex
	failures int       // in a row
	until    time.Time // no call passes before; zero: it is closed
	probed   time.Time // when the probe was let through that has no result yet; zero: there is none
}

// remaining is how long no call is let through yet.
func (b *breaker) remaining() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(0, time.Until(b.until))
}

// acquire lets a call through, or not. probe: it is the one alone. A probe that was silent
// for the quarantine holds no other up: a synchronous run may be silent for hours.
func (b *breaker) acquire() (probe, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	switch {
	case b.until.IsZero():
		return false, true
	case now.Before(b.until), !b.probed.IsZero() && now.Sub(b.probed) < quarantine:
		return false, false
	}
	b.probed = now
	return true, true
}

func (b *breaker) open() {
	b.until, b.probed = time.Now().Add(quarantine), time.Time{}
	b.changed(true)
}

// close lets calls pass until there are too many failures beside those given.
func (b *breaker) close(failures int) {
	open := !b.until.IsZero()
	b.failures, b.until, b.probed = failures, time.Time{}, time.Time{}
	if open {
		b.changed(false)
	}
}

// success is a call that shows the agent well, whenever it began.
func (b *breaker) success() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.close(0)
}

// trial is a probe that is being answered. Others may call now, but the next
// failure is one too many again.
func (b *breaker) trial() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.close(tolerated - 1)
}

// failure is a call that speaks against the agent. One that began before the
// breaker opened says nothing new: the probe alone decides then.
func (b *breaker) failure(probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	closed := b.until.IsZero()
	if closed {
		b.failures++
	}
	if closed && b.failures >= tolerated || !closed && probe && !b.probed.IsZero() {
		b.open()
	}
}

// returned is a probe that has shown nothing. If it was sent, the next comes after as long again;
// otherwise the next call takes its place.
func (b *breaker) returned(sent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if sent && !b.probed.IsZero() {
		b.open()
	}
	b.probed = time.Time{}
}
