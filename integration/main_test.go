//go:build e2e

// Package integration_test looks at the built program from outside.
//
// Only this suite shows what real clients of each protocol get (git, the openai and
// eventsource packages), that a stream can be cut anywhere and resumed, what the whole
// program does when it is killed, drained or reloaded, and that one tenant stops no other.
package integration_test

import (
	"os"
	"testing"

	"weir/internal/weirtest/program"
)

// binary is the program under test, natsBinary the server of the module.
var binary, natsBinary string

func TestMain(m *testing.M) {
	binary, natsBinary = program.Path(program.Weir), program.Path(program.NATS)
	os.Exit(m.Run())
}
