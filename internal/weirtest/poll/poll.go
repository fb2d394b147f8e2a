// Package poll waits in tests for what no signal tells of.
package poll

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// limit is far more than anything takes on a loaded machine: a test that reaches it is broken.
const limit = 2 * time.Minute

// Until returns once a condition holds. It evaluates the condition every few milliseconds on
// the test's goroutine, and fails the test after two minutes. Inside a synctest bubble these
// are the bubble's. A reason may be a format with its arguments.
func Until(tb testing.TB, holds func() bool, reason ...any) {
	tb.Helper()
	for deadline := time.Now().Add(limit); !holds(); time.Sleep(5 * time.Millisecond) { //nolint:forbidigo // the one place
		if !time.Now().After(deadline) {
			continue
		}
		text := ""
		if len(reason) > 0 {
			text = fmt.Sprint(reason[0])
		}
		if len(reason) > 1 {
			text = fmt.Sprintf(text, reason[1:]...)
		}
		tb.Fatal("waited two minutes in vain: ", text)
	}
}

// On waits for a condition that is told of by c, and evaluates it under c's lock. It reports
// false after two minutes.
func On(c *sync.Cond, holds func() bool) bool {
	late := false
	timer := time.AfterFunc(limit, func() {
		c.L.Lock()
		defer c.L.Unlock()
		late = true
		c.Broadcast()
	})
	defer timer.Stop()
	c.L.Lock()
	defer c.L.Unlock()
	for !holds() {
		if late {
			return false
		}
		c.Wait()
	}
	return true
}

// Rest waits, or returns ctx's error as soon as that has ended.
func Rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
