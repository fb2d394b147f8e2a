//go:build e2e

// Package integration_test looks at the built program from outside.
//
// Only this suite shows what real clients of each protocol get (git, the openai and
// eventsource packages, NATS), that a stream can be cut anywhere and resumed, what the whole
// program does when it is killed, drained or reloaded, and that one tenant stops no other.
package integration_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) {
	if os.Getenv(observerEnv) != "" {
		os.Exit(runObserver())
	}
	testscript.Main(runs{m}, map[string]func(){"minion": minion})
}

func contextWithTimeout(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}
