//go:build e2e

// Package roles_test runs the roles as processes of their own over three real NATS servers,
// kills one of each kind, stops one in its work, takes all the servers away, and holds what
// is left against Weir's invariants.
//
// Only this suite shows that actions go on when any one process of a role, or the leading
// server, dies.
package roles_test

import "weir/internal/weirtest/program"

var weirBinary, natsBinary = program.Path(program.Weir), program.Path(program.NATS)
