// Package sim_test runs Weir's state machine over a log in memory and under a clock that
// no real time moves: its acceptor, pipeline, executor, plans, evidence and feeds, on
// several nodes that are killed, paused and misled while clients come and go. Everything
// that a run does is drawn from one seed, so that a run which breaks a promise is made
// again by its seed.
//
// Only this suite shows that no order of crashes, delays, clock steps and lost messages
// breaks an invariant, orders that nobody thought of included.
package sim_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/history"
)

var (
	seedFlag    = flag.Uint64("sim.seed", 0, "make this run alone, and tell of it")
	replaysFlag = flag.Uint64("sim.replays", replays, "how many runs TestReplay makes twice")
	runsFlag    = flag.Int("sim.runs", 0, "how many runs; 0: as many as the time allows, and at least 20, or 300 in e2e")
	firstFlag   = flag.Uint64("sim.first", 1, "the seed of the first run")
	budgetFlag  = flag.Duration("sim.time", 0, "how long to go on at least, where no number of runs is given")
)

// lanes is how many runs go on at once.
const lanes = 2

// outcome is what became of one run.
type outcome struct {
	program    program
	violations []history.Violation
	notes      []string
	tally      *tally
	log        string // a digest of all that was stored
	stored     int
}

// simulate makes one run.
func simulate(t *testing.T, seed uint64, m mutant) (o outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, compose(seed), m)
		r := w.run()
		o = outcome{program: w.program, violations: w.verdict(r), notes: w.notes, tally: &w.tally, stored: len(r.Log) + len(r.Evidence)}
		var b strings.Builder
		for _, rec := range append(slices.Clone(r.Log), r.Evidence...) {
			fmt.Fprintf(&b, "%s %d %s %s\n", rec.Subject, rec.Seq, rec.Time, rec.Data)
		}
		o.log = sum(b.String())
	})
	return o
}

// report is what a person needs of a run that broke a promise.
func (o outcome) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d broke %d promises:\n", o.program.seed, len(o.violations))
	for _, v := range o.violations {
		fmt.Fprintf(&b, "  %s\n", v)
	}
	fmt.Fprintf(&b, "make it again: go test ./integration/sim -run 'TestSim$' -sim.seed=%d -v\n", o.program.seed)
	b.WriteString(o.program.String())
	return b.String() + strings.Join(o.notes, "\n")
}

// TestSim makes runs until its time is up, and holds each against all invariants. Every
// branch has to have been taken by then.
func TestSim(t *testing.T) {
	if *seedFlag != 0 {
		o := simulate(t, *seedFlag, "")
		t.Log(o.program.String() + strings.Join(o.notes, "\n"))
		require.Empty(t, o.violations, o.report())
		return
	}
	var total tally
	var next atomic.Uint64
	var mu sync.Mutex
	next.Store(*firstFlag)
	start, stored := time.Now(), 0
	until := func(seed uint64) bool {
		if *runsFlag > 0 {
			return seed < *firstFlag+uint64(*runsFlag)
		}
		return seed < *firstFlag+few || time.Since(start) < *budgetFlag
	}
	t.Run("runs", func(t *testing.T) {
		for range lanes {
			t.Run("lane", func(t *testing.T) {
				t.Parallel()
				for seed := next.Add(1) - 1; until(seed) && !t.Failed(); seed = next.Add(1) - 1 {
					o := simulate(t, seed, "")
					mu.Lock()
					total.merge(o.tally)
					stored += o.stored
					mu.Unlock()
					require.Empty(t, o.violations, o.report())
				}
			})
		}
	})
	runs := next.Load() - *firstFlag - lanes
	t.Logf("%d runs from seed %d on in %s, %d records, 0 violations\n%s", runs, *firstFlag, time.Since(start).Round(time.Millisecond), stored, &total)
	if !t.Failed() && runs >= enough {
		assert.Empty(t, total.missing(), "branches that no run took")
	}
}

// enough is how many runs take every branch, for certain.
const enough = 300

// TestReplay: a seed is a run, to the last byte of the log.
func TestReplay(t *testing.T) {
	t.Parallel()
	for seed := *firstFlag; seed < *firstFlag+*replaysFlag; seed++ {
		first, again := simulate(t, seed, ""), simulate(t, seed, "")
		for i, note := range first.notes {
			require.Less(t, i, len(again.notes), "seed %d", seed)
			require.Equal(t, note, again.notes[i], "seed %d", seed)
		}
		require.Equal(t, first.log, again.log, "the log of seed %d", seed)
	}
}
