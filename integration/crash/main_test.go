//go:build e2e

// Package crash_test kills the built program at every step of an action's life, starts it
// again, and holds what it left behind against its invariants.
//
// Only this suite shows, with the real program, that a kill at any step of any class loses no
// accepted action and sends no call a second time that may be sent once.
package crash_test

import (
	"flag"

	"weir/internal/weirtest/program"
)

// binary is the program with its failpoints.
var binary = program.Path(program.Failpoints)

var (
	rounds  = flag.Int("crash.rounds", 0, "how often the whole matrix runs with both durabilities; 0 is a selection: each point once with each class")
	seed    = flag.Uint64("crash.seed", 0, "what chance in the long form begins with; 0 takes another one each time")
	streams = flag.Int("crash.streams", 25, "how many open streams a kill interrupts for each class of F3")
	at      = flag.Int("crash.concurrency", 8, "how many data directories are at work at a time")
	only    = flag.String("crash.only", "", "run the points alone whose title holds this")
)
