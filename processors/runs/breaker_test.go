package runs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"weir/internal/weirtest/table"
)

// tried is one breaker, and whether it is open as somebody hears of it.
type tried struct {
	*breaker
	t     *testing.T
	heard bool
}

// brokenOff is a breaker that has just opened.
func brokenOff(t *testing.T) *tried {
	t.Helper()
	b := &tried{t: t}
	b.breaker = &breaker{changed: func(open bool) { b.heard = open }}
	for range tolerated {
		assert.False(t, b.heard)
		b.lets(true, false)
		b.failure(false)
	}
	assert.True(t, b.heard)
	return b
}

// lets asks for leave.
func (b *tried) lets(through, asProbe bool) {
	b.t.Helper()
	probe, ok := b.acquire()
	assert.Equal(b.t, through, ok)
	assert.Equal(b.t, asProbe, probe)
}

// isAlone: nothing goes through for ten seconds, then one alone.
func (b *tried) isAlone() {
	b.t.Helper()
	assert.True(b.t, b.heard)
	assert.Equal(b.t, quarantine, b.remaining())
	time.Sleep(quarantine - time.Nanosecond)
	b.lets(false, false)
	time.Sleep(time.Nanosecond)
	assert.Zero(b.t, b.remaining())
	b.lets(true, true)
	b.lets(false, false)
	assert.True(b.t, b.heard)
}

// overtaken: the probe is silent, and the next one fails; nine seconds of the pause are over.
func (b *tried) overtaken() {
	b.t.Helper()
	time.Sleep(quarantine)
	b.lets(true, true)
	b.failure(true)
	time.Sleep(quarantine - time.Second)
}

// TestABreakerByTheClock: what becomes of the call that goes alone, and what others
// that began earlier have to say of it.
func TestABreakerByTheClock(t *testing.T) {
	t.Parallel()
	table.Bubble(t, map[string]func(b *tried){
		"a failure": func(b *tried) {
			b.failure(true)
			b.isAlone()
		},
		"a success": func(b *tried) {
			b.success()
			assert.False(b.t, b.heard)
			for range tolerated - 1 {
				b.failure(false)
			}
			b.lets(true, false)
			b.failure(false)
			b.isAlone()
		},
		"nothing, though it was made": func(b *tried) {
			b.returned(true)
			b.isAlone()
		},
		"nothing, for it was not made": func(b *tried) {
			b.returned(false)
			assert.True(b.t, b.heard)
			assert.Zero(b.t, b.remaining())
			b.lets(true, true)
			b.lets(false, false)
			b.success()
			b.lets(true, false)
			assert.False(b.t, b.heard)
		},
		"silence": func(b *tried) {
			time.Sleep(quarantine - time.Nanosecond)
			b.lets(false, false)
			time.Sleep(time.Nanosecond)
			b.lets(true, true)
			b.lets(false, false)
			b.failure(true)
			b.isAlone()
		},
		"silence, then a failure after another's": func(b *tried) {
			b.overtaken()
			b.failure(true)
			assert.Equal(b.t, time.Second, b.remaining())
			time.Sleep(time.Second)
			b.failure(true)
			assert.Zero(b.t, b.remaining())
			b.lets(true, true)
			b.lets(false, false)
		},
		"silence, then nothing after another's failure": func(b *tried) {
			b.overtaken()
			b.returned(true)
			assert.Equal(b.t, time.Second, b.remaining())
			time.Sleep(time.Second)
			b.returned(true)
			assert.Zero(b.t, b.remaining())
			b.lets(true, true)
			b.lets(false, false)
		},
		"the beginning of an answer": func(b *tried) {
			b.trial()
			assert.False(b.t, b.heard)
			b.lets(true, false)
			b.failure(false)
			b.isAlone()
		},
		"the beginning of an answer, then its good end": func(b *tried) {
			b.trial()
			b.success()
			for range tolerated - 1 {
				b.failure(false)
			}
			b.lets(true, false)
		},
		"an old failure": func(b *tried) {
			b.failure(false)
			b.lets(false, false)
			b.success()
			b.lets(true, false)
		},
		"an old success": func(b *tried) {
			b.success()
			assert.False(b.t, b.heard)
			b.returned(true) // of the probe, which does not matter any more
			b.returned(false)
			b.lets(true, false)
		},
	}, func(t *testing.T, then func(b *tried)) {
		b := brokenOff(t)
		time.Sleep(time.Second)
		b.failure(false) // of a call that began before
		assert.Equal(t, quarantine-time.Second, b.remaining())
		time.Sleep(quarantine - time.Second)
		b.lets(true, true)
		then(b)
	})
}
