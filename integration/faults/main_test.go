//go:build e2e || nightly

// Package faults_test breaks a cluster in every way that is known, under load, and holds
// what is left against Weir's invariants: three real NATS servers, real processes of Weir,
// and links between all of them that can be cut, held and slowed.
//
// Only this suite shows each fault of a cluster under load, and faults that come at random. In e2e it
// shows that actions go on when a process of any role, the leading server or all servers die, and
// that a worker which stood still writes nothing to what others have ended.
package faults_test

import (
	"flag"
	"slices"
	"strings"
	"time"

	"weir/internal/weirtest/program"
)

var weirBinary, natsBinary = program.Path(program.Failpoints), program.Path(program.NATS)

var (
	all   = flag.Bool("faults.all", false, "every fault, and as often as it takes; else a selection, once")
	only  = flag.String("faults.only", "", "run the faults alone whose number or title holds one of these, with commas between them")
	seed  = flag.Uint64("faults.seed", 0, "what chance begins with; 0 takes another one each time")
	soak  = flag.Duration("faults.soak", 0, "how long faults come at random (F48); 0: not at all")
	kills = flag.Int("faults.kills", 20, "how many servers F19 kills with -faults.all")
	older = flag.String("faults.older", "", "a commit of this repository, or a program built from one, which F37 changes to and back; empty: no other version")
)

// chosen reports whether a fault is to be played.
func chosen(number, title string) bool {
	return slices.ContainsFunc(strings.Split(*only, ","), func(part string) bool { return strings.Contains(number+" "+title, part) })
}

// long is a duration for the whole, and short one for the selection.
func long(short, long time.Duration) time.Duration {
	if *all {
		return long
	}
	return short
}
