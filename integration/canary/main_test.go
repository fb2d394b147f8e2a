//go:build e2e

package canary_test

import (
	"os"
	"testing"

	"weir/internal/weirtest/program"
)

// The programs under test.
var weirBinary, natsBinary string

func TestMain(m *testing.M) {
	weirBinary, natsBinary = program.Path(program.Weir), program.Path(program.NATS)
	os.Exit(m.Run())
}
