//go:build e2e

// Package roles_test runs the roles as processes of their own over three real NATS servers,
// kills one of each kind, stops one in its work, takes all the servers away, and holds what
// is left against Weir's invariants.
package roles_test

import "weir/internal/weirtest/program"

var weirBinary, natsBinary = program.Path(program.Weir), program.Path(program.NATS)
