// Package roles_test runs the roles as processes of their own over three real NATS servers,
// kills one of each kind, stops one in its work, takes all the servers away, and holds what
// is left against Weir's invariants.
package roles_test

import (
	"fmt"
	"os"
	"testing"

	"weir/internal/weirtest/cluster"
	"weir/internal/weirtest/program"
)

// The programs, built once.
var weirBinary, natsBinary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "weir-roles-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if weirBinary, err = program.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if natsBinary, err = cluster.BuildServer(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
