//go:build e2e

// Package crash_test kills the built program at every step of an action's life, starts it
// again, and holds what it left behind against its invariants.
//
// Only this suite shows, with the real program, that a kill at any step of any class loses no
// accepted action and sends no call a second time that may be sent once, that open streams go on
// behind a kill, and that an action and its successor name each other whatever dies between.
package crash_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/broker"
	"weir/internal/weirtest/callers"
	"weir/internal/weirtest/history"
	"weir/internal/weirtest/program"
	"weir/internal/weirtest/stored"
	"weir/schemas"
)

// binary is the program with its failpoints.
var binary = program.Path(program.Failpoints)

var (
	rounds  = flag.Int("crash.rounds", 0, "how often the whole matrix runs with both durabilities; 0 is a selection: each point once with each class")
	seed    = flag.Uint64("crash.seed", 0, "what chance in the long form begins with; 0 takes another one each time")
	streams = flag.Int("crash.streams", 25, "how many open streams a kill interrupts for each class of F3")
	only    = flag.String("crash.only", "", "run the points alone whose title holds this")
)

// atOnce is how many data directories are at work at a time, if -parallel does not say: they
// wait, and use no processor.
const atOnce = "8"

func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", atOnce) // it is a number
	}
	os.Exit(m.Run())
}

// trial is one cell on one data directory.
type trial struct {
	cell       cell
	durability string
	nth        map[string]int // at which of its records it is to befall an action of each class
	times      map[string]int // and how often

	upstream *callers.Target
	node     *node
	party    *callers.Callers

	t          *testing.T
	fired      map[string]int
	kills      int
	violations []history.Violation
}

// TestCrashMatrix: whatever the program dies of, its clients, the upstream and the log
// agree afterwards, and each fault did come about for each class that it can befall.
func TestCrashMatrix(t *testing.T) {
	t.Parallel()
	begin := *seed
	if begin == 0 {
		begin = rand.Uint64()
	}
	t.Logf("seed %d (-crash.seed)", begin)
	for i, r := range plan(t, rand.New(rand.NewPCG(begin, 0))) {
		t.Run(fmt.Sprintf("%s/%s/%d", r.cell.slug(), r.durability, i), func(t *testing.T) {
			t.Parallel()
			r.t = t
			r.run(t.Context())
		})
	}
}

// must ends the trial where it cannot go on.
func (r *trial) must(err error, what string) {
	r.t.Helper()
	require.NoError(r.t, err, what)
}

// plan is every cell with one durability, in turns; or, in the long form, with both, round
// after round, with chance in it.
func plan(t *testing.T, chance *rand.Rand) []*trial {
	t.Helper()
	var trials []*trial
	add := func(c cell, durability string) *trial {
		r := &trial{cell: c, durability: durability, nth: map[string]int{}, times: map[string]int{}, fired: map[string]int{}}
		for _, class := range c.classes {
			r.times[class], r.nth[class] = 1, 1
			if c.appends {
				r.nth[class] = theAttempt
			}
		}
		if strings.Contains(c.row+" "+c.title, *only) {
			trials = append(trials, r)
		}
		return r
	}
	durabilities := []string{"disk", "process"}
	for i, c := range cells() {
		if *rounds == 0 {
			add(c, durabilities[i%2])
		}
	}
	for range *rounds {
		for _, c := range cells() {
			for _, d := range durabilities {
				r := add(c, d)
				for _, class := range c.classes {
					if c.appends {
						r.nth[class] = 1 + chance.IntN(records(class))
					}
				}
				if c.point != "" && !c.appends && c.act == "kill" && chance.IntN(2) == 0 {
					r.times[c.classes[chance.IntN(len(c.classes))]] = 2
				}
			}
		}
	}
	return trials
}

const (
	// patience is how long a trial may take.
	patience = 10 * time.Minute
	// quiet is how long nothing is killed before a directory is judged: what a dead process
	// held has come again by then.
	quiet = broker.DefaultAckWait + 2*time.Second
)

// run brings the fault of the cell about, waits for every end, and checks the three ledgers.
func (r *trial) run(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r.upstream = callers.NewTarget()
	if r.cell.hold {
		r.upstream.HoldFirst()
	}
	defer r.upstream.Close()
	r.node = serve(r.t, r.durability, r.upstream.Policy(), func(*node) string { return r.arms() })
	defer func() {
		_ = r.node.stop(context.WithoutCancel(ctx)) // its last words belong to the log
		r.t.Logf("%s: %d actions, %d kills, befell %v, %d violations", r.cell.row, len(r.cell.classes), r.kills, r.fired, len(r.violations))
		if r.t.Failed() {
			r.t.Logf("times %v, at record %v; weir's stderr:\n%s", r.times, r.nth, r.node.log.String())
		}
	}()
	r.party = callers.New(callers.Config{Target: r.upstream, Write: r.node.url, Read: r.node.url, Name: r.cell.slug(), Patience: patience, Pad: 48 << 10})
	r.mock()
	drive := r.cell.drive
	if drive == nil {
		drive = passThrough
	}
	drive(ctx, r)
	r.must(r.party.Stop(), "the clients")
	r.settle(ctx)
	r.upstream.Close()
	var run history.Run
	r.party.Fill(&run)
	r.must(stored.Offline(ctx, r.node.dir, &run), "what is stored")
	r.violations = history.Check(run, history.Bounds{})
	r.compare(run)
	require.Empty(r.t, r.violations)
	for _, class := range r.cell.classes {
		if r.times[class] > 1 {
			r.fired[class] = r.node.reached(r.name(class))
		}
		require.Positive(r.t, r.fired[class], "%s never befell %s", r.cell.title, class)
	}
}

// settle waits until nothing more can come of the kills, and ends the program.
func (r *trial) settle(ctx context.Context) {
	r.until(ctx, "quiet", func() bool {
		var last time.Time
		r.kills, last = r.node.deaths()
		return r.kills == 0 || time.Since(last) > quiet
	})
	r.must(r.node.stop(ctx), "its end")
}

// until waits for a condition, over the deaths of the program.
func (r *trial) until(ctx context.Context, what string, holds func() bool) {
	for {
		_, err := r.node.base()
		r.must(err, what)
		if holds() {
			return
		}
		r.must(pause(ctx), what)
	}
}

// begin has the client of a class ask, and a reader follow.
func (r *trial) begin(ctx context.Context, class string) {
	r.party.Send(ctx, callers.Order{Name: r.name(class), Class: class, Watch: true})
}

// mock puts the rule in that answers the calls of its class.
func (r *trial) mock() {
	base, err := r.node.base()
	r.must(err, "the first process")
	c := program.Client{Base: base}
	program.Operate[any](r.t, c, schemas.OpRulesCreate, map[string]any{"if_match": c.Etag(r.t), "rule": map[string]any{
		"id": "mock", "type": schemas.RuleMock,
		"match":  map[string]any{"url_pattern": r.upstream.URL + "/plain/" + r.name(mocked)},
		"action": map[string]any{"status": http.StatusOK},
	}})
}
