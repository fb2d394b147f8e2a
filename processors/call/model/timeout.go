package model

import (
	"sync/atomic"
	"time"
)

// timeout ends a wait that took too long. It belongs to one goroutine; a nil one never
// rings.
type timeout struct {
	timer *time.Timer
	rang  atomic.Bool
}

func newTimeout(end func()) *timeout {
	a := &timeout{}
	a.timer = time.AfterFunc(time.Hour, func() {
		a.rang.Store(true)
		end()
	})
	a.timer.Stop()
	return a
}

// set has it ring after d, unless it is stopped before.
func (a *timeout) set(d time.Duration) { a.timer.Reset(max(d, 0)) }

func (a *timeout) stop() {
	if a != nil {
		a.timer.Stop()
	}
}

// ringing reports whether it has rung.
func (a *timeout) ringing() bool { return a != nil && a.rang.Load() }

// graces is how many times as long as one byte a stream is waited for that has no end.
const graces = 12

// gracePeriod ends the wait for the end of a stream whose choices have ended. It belongs to one
// goroutine; nil never begins.
type gracePeriod struct {
	*timeout
	time  time.Duration
	until time.Time // zero: not started
	waits bool
}

func newGracePeriod(d time.Duration, end func()) *gracePeriod {
	return &gracePeriod{timeout: newTimeout(end), time: d}
}

// begin has it ring if nothing more comes in time.
func (g *gracePeriod) begin() {
	if g.until.IsZero() {
		g.until = time.Now().Add(graces * g.time)
	}
	g.waits = true
	g.more()
}

// more notes that something came.
func (g *gracePeriod) more() {
	if g != nil && g.waits && !g.ringing() {
		g.set(min(g.time, time.Until(g.until)))
	}
}

func (g *gracePeriod) stop() {
	g.timeout.stop()
	g.waits = false
}
