//go:build nightly

package bench_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"weir/internal/weirtest/program"
)

var (
	copies     = flag.String("copies", "1,3", "with -full, how many servers of three have the log, in TestScale")
	crews      = flag.String("workers", "1,2,4,8", "with -full, how many workers share the work")
	slots      = flag.Int("slots", 1, "with -full, workers.slots of each of them")
	partitions = flag.Int("partitions", 2, "with -full, the queues that they share")
	takes      = flag.Duration("takes", 100*time.Millisecond, "how long their target takes over a call")
	worked     = flag.Duration("worked", 20*time.Second, "with -full, how long each number of workers has work")
	queued     = flag.Int("queued", 1_000_000, "with -full, how many actions are queued on a cluster")
	drained    = flag.Int("drained", 100_000, "with -full, how many of them are worked off first, and last; 0: all are worked off")
	viewers    = flag.Int("viewers", 2000, "with -full, how many read the events of runs")
)

// TestScale measures roles of Weir as processes of their own over three NATS servers, the
// log on one of them and on all: whether more workers do more, whether a long queue is
// slower, what copies cost, and what a second egress brings. Each action is performed once
// and each event read once, which is asserted; times are not. -full measures and prints
// tables.
func TestScale(t *testing.T) { //nolint:paralleltest // it measures
	servers := program.Path(program.NATS)
	if !*full {
		tryScale(t, servers)
		return
	}
	kept := numbers(t, *copies)
	t.Run("workers", func(t *testing.T) { //nolint:paralleltest // as above
		for _, n := range kept {
			on(t, site{servers: servers, copies: n, partitions: *partitions}, measureWorkers)
		}
	})
	t.Run("copies", func(t *testing.T) { //nolint:paralleltest // as above
		var all []costs
		for _, n := range kept {
			on(t, site{servers: servers, copies: n, partitions: usualPartitions}, func(t *testing.T, g *ground) { //nolint:thelper // it is the test
				all = append(all, measureCosts(t, g))
			})
		}
		showCosts(all)
	})
	most := kept[len(kept)-1]
	t.Run("streams", func(t *testing.T) { //nolint:paralleltest // as above
		on(t, site{servers: servers, copies: most, partitions: usualPartitions}, measureStreams)
	})
	t.Run("queue", func(t *testing.T) { //nolint:paralleltest // as above
		on(t, site{servers: servers, copies: most, partitions: usualPartitions}, measureQueue)
	})
}

// usualPartitions are those of a cluster that nobody said anything about.
const usualPartitions = 8

// tryScale is all of it in a tiny form, which shows that the harness works and that its
// counts are right.
func tryScale(t *testing.T, servers string) {
	t.Helper()
	on(t, site{servers: servers, copies: 1, partitions: 1}, func(t *testing.T, g *ground) { measureCosts(t, g) }) //nolint:thelper // it is the test
	on(t, site{servers: servers, copies: 3, partitions: 2}, func(t *testing.T, g *ground) {                       //nolint:thelper // it is the test
		measureCosts(t, g)
		measureWorkers(t, g)
		measureQueue(t, g)
		measureStreams(t, g)
	})
}

// on runs a part of it on a cluster of its own, which is gone when it returns.
func on(t *testing.T, at site, part func(*testing.T, *ground)) {
	t.Helper()
	t.Run(fmt.Sprintf("R%d", at.copies), func(t *testing.T) {
		part(t, newGround(t, at))
	})
}

// sized is a number for the measurement, or one for its tiny form.
func sized[T any](measured, tried T) T {
	if *full {
		return measured
	}
	return tried
}

// say tells how far a long measurement is.
func say(format string, args ...any) {
	if *full {
		fmt.Printf("%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
	}
}

// tell prints a line of what was measured.
func tell(format string, args ...any) {
	if *full {
		fmt.Printf(format+"\n", args...)
	}
}
