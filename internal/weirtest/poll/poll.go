// Package poll waits in tests for what no signal tells of.
package poll

import (
	"fmt"
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
