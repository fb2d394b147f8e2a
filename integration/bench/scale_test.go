//go:build nightly

package bench_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"weir/internal/broker"
	"weir/internal/weirtest/cluster"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

// usualPartitions are the default of a cluster, and usualSlots are for
// work that is not counted.
const (
	usualPartitions = 8
	usualSlots      = 64
)

// Of workers that share the work: the queues, how long their target takes over a call, and how long
// each number of them has work with -full.
const (
	partitions = 2
	takes      = 100 * time.Millisecond
	worked     = 20 * time.Second
)

// TestScale measures roles of Weir as processes of their own over three NATS servers, the
// log on one of them and on all: what copies cost, and whether more workers do more. Each action is
// performed once.
func TestScale(t *testing.T) { //nolint:paralleltest // it measures
	servers := program.Path(program.NATS)
	part := func(name string, copies, partitions int, measure func(*testing.T, *ground)) {
		t.Run(fmt.Sprintf("%s/R%d", name, copies), func(t *testing.T) { measure(t, newGround(t, servers, copies, partitions)) })
	}
	for _, n := range []int{1, 3} { // servers that have the log
		part("copies", n, sized(usualPartitions, partitions), measureCosts)
		part("workers", n, partitions, measureWorkers)
	}
}

// ground is three NATS servers that reach each other directly, an ingress on them, and the
// target of their calls.
type ground struct {
	cluster            *cluster.Cluster
	copies, partitions int
	target             *upstream
	ingress            *process
	where              string // for titles
}

// room is what a server may store: more than any measurement takes.
const room = 64 << 30

func newGround(t *testing.T, servers string, copies, partitions int) *ground {
	t.Helper()
	g := &ground{copies: copies, partitions: partitions, target: newUpstream(t)}
	g.where = fmt.Sprintf("three NATS servers that sync each write, log R%d in %d partitions", copies, partitions)
	var err error
	g.cluster, err = cluster.Start(t.Context(), cluster.Config{Binary: servers, Dir: t.TempDir(), Room: room, Direct: true})
	require.NoError(t, err)
	t.Cleanup(g.cluster.Stop)
	g.ingress = g.start(t, "ingress", usualSlots)
	require.NoError(t, g.cluster.Healthy(t.Context()))
	return g
}

// start runs a role of Weir until the test ends.
func (g *ground) start(t *testing.T, role string, slots int) *process {
	t.Helper()
	config := weirConfig(t, g.target.url, fmt.Sprintf("nats: {url: %q}\nlog: {partitions: %d, replicas: %d}\nworkers: {slots: %d}\n",
		g.cluster.Direct(), g.partitions, g.copies, slots))
	return start(t, role, "--config", config, "--log-level", "error")
}

// crew runs so many workers.
func (g *ground) crew(t *testing.T, n, slots int) []*process {
	t.Helper()
	all := make([]*process, n)
	for i := range all {
		all[i] = g.start(t, "worker", slots)
	}
	return all
}

// measureCosts appends records as ingress does, and makes calls that are waited for, by
// one at a time and by many.
func measureCosts(t *testing.T, g *ground) { //nolint:thelper // it is a part of the test
	layout := schemas.Layout{Partitions: g.partitions}
	b, err := broker.Open(t.Context(), broker.Config{URL: g.cluster.Direct(), Layout: layout, Replicas: g.copies, AttemptTimeout: 5 * time.Second})
	require.NoError(t, err)
	defer b.Close(context.WithoutCancel(t.Context()))
	data := []byte(`{"x":"` + strings.Repeat("x", weirWrites("POST").before[0].size) + `"}`)
	record := func(ctx context.Context) error { // each of an id that must be new
		ref := schemas.Ref{Tenant: "bench", Kind: schemas.KindHTTP, ID: uuid.NewString()}
		_, err := b.Append(ctx, schemas.Append{
			Subject: layout.Subject(ref, schemas.SectionEvent), Data: data, Guarded: true, Guard: layout.AnyKind(ref.Tenant, ref.ID),
		})
		return err
	}
	worker := g.start(t, "worker", usualSlots)
	direct := target{name: "direct", method: http.MethodPost, url: g.target.url + "/x", body: same(smallBody), status: http.StatusOK}
	calls := func(l load) sample {
		const most = 1 << 20
		lot, before := g.target.lot(most, 0), settled(t, worker)
		lot.open()
		s := execute(g.ingress, lot.next).put(t, l, usual())
		lot.once(t, len(s.took))
		settledBy(t, before+len(s.took), worker)
		return s
	}
	rows := newTable(fmt.Sprintf("%s, one ingress and one worker, %s a load, median of %d", g.where, *span, *rounds), "", "by", "a second", "p50", "p99")
	for _, n := range sized([]int{1, 16, 64}, []int{2}) {
		l := load{callers: n}
		for _, what := range []struct {
			name string
			put  func() sample
		}{
			{"an append", func() sample {
				s, err := l.run(t.Context(), nil, record, usual())
				require.NoError(t, err)
				return s
			}},
			{"the call alone", func() sample { return direct.put(t, l, usual()) }},
			{"a call through Weir", func() sample { return calls(l) }},
		} {
			var all []sample
			for range sized(*rounds, 1) {
				all = append(all, what.put())
			}
			at := func(p int) time.Duration { return median(all, func(s sample) time.Duration { return s.percentile(p) }) }
			rows.row(what.name, n, median(all, sample.rate), at(50), at(99))
		}
	}
}

// fifths: the rate of workers is that of the first four, because at the end some queues are
// empty before others.
const fifths = 5

// measureWorkers has more and more workers do work of which each can only do so much at a
// time: a call takes long and no processor.
func measureWorkers(t *testing.T, g *ground) { //nolint:thelper // it is a part of the test
	rows := newTable(fmt.Sprintf("%s, `workers.slots` 1, a target that takes %s, %s of work", g.where, takes, worked),
		"workers", "ideal", "calls/s", "of ideal", "of linear")
	alone := 0.0
	for _, n := range sized([]int{1, 2, 4, 8}, []int{1, 2}) {
		for range sized(*rounds, 1) {
			slots := sized(1, 2)
			atOnce := n * slots * g.partitions
			ideal := float64(atOnce) / takes.Seconds()
			work := sized(int(ideal*worked.Seconds())/fifths*fifths, 12*fifths*n)
			l := g.target.lot(work, takes)
			execute(g.ingress, l.next).async().put(t, load{callers: 64}, limit{calls: work})
			crew := g.crew(t, n, slots)
			poll.Until(t, func() bool { return l.waiting.Load() == int64(atOnce) }, "every slot works")
			l.part.Store(int64(work / fifths))
			begun := time.Now()
			l.open()
			rate := 0.0
			for i := range fifths {
				at := l.reached(t)
				if i < fifths-1 {
					rate = float64(work/fifths*(i+1)) / at.Sub(begun).Seconds()
				}
			}
			settledBy(t, work, crew...)
			terminate(t, crew...)
			l.once(t, work)
			if alone == 0 {
				alone = rate / float64(n)
			}
			rows.row(n, ideal, rate, share(rate/ideal), share(rate/(alone*float64(n))))
		}
	}
}
