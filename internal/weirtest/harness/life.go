package harness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

// ErrDead is what a worker gets from the log, and from whatever else counts its steps, once it has died.
var ErrDead = errors.New("the worker is dead")

// Life decides when the worker under test dies: before or after its nth step. A step is a write to
// the log or to what else a test counts by Step. It is safe for concurrent use; the zero Life is that
// of a worker which is busy and does not die.
type Life struct {
	mu    sync.Mutex
	idle  int // while it is over zero, what happens is the test's own doing
	armed bool
	steps int
	done  bool
	dead  bool
}

// DieAt has the worker die at its nth step from now on, counted from zero: after that step if it is to
// be done, before it otherwise.
func (l *Life) DieAt(n int, done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed, l.steps, l.done, l.dead = true, n, done, false
}

// Kill ends the worker at once.
func (l *Life) Kill() { l.set(true) }

// Heal stands for another worker, which does not die.
func (l *Life) Heal() { l.set(false) }

func (l *Life) set(dead bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed, l.dead = false, dead
}

// Dead reports whether the worker has died.
func (l *Life) Dead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// Busy reports whether what happens now is the worker's doing.
func (l *Life) Busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.idle == 0
}

// Apart runs f, whose steps are not the worker's.
func (l *Life) Apart(f func()) {
	l.rest(1)
	defer l.rest(-1)
	f()
}

func (l *Life) rest(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle += n
}

// Step is called before and after each step; its error is that of the step.
func (l *Life) Step(after bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.idle > 0:
		return nil
	case l.dead:
		return ErrDead
	case !l.armed:
		return nil
	case l.steps == 0 && after == l.done:
		l.dead, l.armed = true, false
		return ErrDead
	case after && l.steps > 0:
		l.steps--
	}
	return nil
}

// Alive is the error of what is no step: a dead worker cannot do it.
func (l *Life) Alive() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.idle == 0 && l.dead {
		return ErrDead
	}
	return nil
}

// Barrier is Alive as a barrier of the log.
func (l *Life) Barrier(context.Context) error { return l.Alive() }

// Hooks make each append a step. before, if set, runs before each; its error is the append's.
func (l *Life) Hooks(before func(schemas.Append) error) memlog.Hooks {
	return memlog.Hooks{
		Before: func(m schemas.Append) error {
			if err := l.Alive(); err != nil {
				return err
			}
			if before != nil {
				if err := before(m); err != nil {
					return err
				}
			}
			return l.Step(false)
		},
		After: func(schemas.Append, uint64) error { return l.Step(true) },
		Read:  l.Alive,
	}
}

// EachStep kills a worker at each of its steps, before and after it. live plays one life in a bubble of its own, with
// a worker that dies at its nth step, and reports whether it came to that. It must take more than least steps.
func EachStep(t *testing.T, least int, live func(t *testing.T, n int, done bool, msg string) (died bool)) {
	t.Helper()
	for _, done := range []bool{false, true} {
		for n, died := 0, true; died; n++ {
			synctest.Test(t, func(t *testing.T) { died = live(t, n, done, fmt.Sprintf("step %d, done %v", n, done)) })
			require.True(t, died || n > least, "the workers did too little for a test")
		}
	}
}
