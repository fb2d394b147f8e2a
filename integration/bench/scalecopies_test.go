//go:build nightly

package bench_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"weir/internal/broker"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// costs are what writes and calls take on one kind of log, by their names.
type costs struct {
	copies int
	names  []string
	of     map[string]sample
}

// measureCosts appends records as ingress does, and makes calls that are waited for, by
// one at a time and by many.
func measureCosts(t *testing.T, g *ground) costs {
	t.Helper()
	all := costs{copies: g.copies, of: make(map[string]sample)}
	add := func(name string, measure func() sample) {
		samples := make([]sample, 0, *rounds)
		for range sized(*rounds, 1) {
			samples = append(samples, measure())
		}
		all.names = append(all.names, name)
		all.of[name] = midmost(samples)
		say("R%d, %s: %s", g.copies, name, timed(all.of[name]))
	}
	for _, n := range sized([]int{1, 64}, []int{2}) {
		add(people("an append", "writers", n), func() sample { return g.appends(t, n) })
	}
	crew := g.crew(t, 1, usualSlots)
	at := newUpstream(t)
	for _, n := range sized([]int{1, 16, 64}, []int{2}) {
		add(people("the call alone", "callers", n), func() sample {
			s, err := closed(t.Context(), target{name: direct, method: "POST", url: at.URL, body: `{"a":1}`, status: 200}, n, sized(limit{span: *span}, limit{calls: 4}))
			require.NoError(t, err)
			return s
		})
		add(people("a call through Weir", "callers", n), func() sample { return g.calls(t, n, crew[0]) })
	}
	dismiss(t, crew)
	return all
}

// calls makes calls one after the other and waits for each.
func (g *ground) calls(t *testing.T, callers int, worker *process) sample {
	t.Helper()
	const most = 1 << 20
	l := g.target.lot(most, 0)
	l.open()
	before := settled(t, worker)
	s, err := closed(t.Context(), g.asks(l, true), callers, sized(limit{span: *span}, limit{calls: 4}))
	require.NoError(t, err)
	l.once(t, s.done)
	poll.Until(t, func() bool { return settled(t, worker) == before+s.done }, "each ends once")
	return s
}

// appends writes records of the size of an accepted action, each of an id that must be new.
func (g *ground) appends(t *testing.T, writers int) sample {
	t.Helper()
	layout := schemas.Layout{Partitions: g.partitions}
	b, err := broker.Open(t.Context(), broker.Config{URL: g.cluster.Direct(), Layout: layout, Replicas: g.copies, AttemptTimeout: 5 * time.Second})
	require.NoError(t, err)
	defer b.Close(t.Context())
	data := []byte(`{"x":"` + strings.Repeat("x", weirWrites("POST").before[0].size) + `"}`)
	var s sample
	var mu sync.Mutex
	var failed error
	var left atomic.Int64
	left.Store(4)
	until := time.Now().Add(*span)
	more := func() bool {
		if *full {
			return time.Now().Before(until)
		}
		return left.Add(-1) >= 0
	}
	s, err = measure(target{name: "append"}, &s, func() error {
		var group sync.WaitGroup
		for range writers {
			group.Go(func() {
				var took []time.Duration
				var err error
				for err == nil && more() {
					ref := schemas.Ref{Tenant: "bench", Kind: schemas.KindHTTP, ID: uuid.NewString()}
					begun := time.Now()
					_, err = b.Append(t.Context(), schemas.Append{
						Subject: layout.Subject(ref, schemas.SectionEvent), Data: data, Guarded: true, Guard: layout.AnyKind(ref.Tenant, ref.ID),
					})
					took = append(took, time.Since(begun))
				}
				mu.Lock()
				defer mu.Unlock()
				s.took = append(s.took, took...)
				if err != nil {
					failed = err
				}
			})
		}
		group.Wait()
		return failed
	})
	require.NoError(t, err)
	return s
}

// midmost is the sample whose rate is the median.
func midmost(all []sample) sample {
	want := median(all, sample.rate)
	for _, s := range all {
		if s.rate() == want {
			return s
		}
	}
	return all[0]
}

func people(what, who string, n int) string {
	if n == 1 {
		who = strings.TrimSuffix(who, "s")
	}
	return fmt.Sprintf("%s, %d %s", what, n, who)
}

func timed(s sample) string {
	return fmt.Sprintf("%.0f | %s | %s", s.rate(), ms(s.percentile(50)), ms(s.percentile(99)))
}

func showCosts(all []costs) {
	if len(all) == 0 {
		return
	}
	tell("\n%s; three NATS servers that sync each write, %d partitions, one ingress and one worker, %s a load, median of %d\n", machine(), usualPartitions, *span, *rounds)
	var head strings.Builder
	head.WriteString("| |")
	for _, c := range all {
		fmt.Fprintf(&head, " R%d: a second | p50 | p99 |", c.copies)
	}
	one, most := all[0], all[len(all)-1]
	tell("%s R%d / R%d |\n|%s", head.String(), most.copies, one.copies, strings.Repeat("---|", 3*len(all)+2))
	for _, name := range one.names {
		row := []string{name}
		for _, c := range all {
			row = append(row, timed(c.of[name]))
		}
		tell("| %s | %s |", strings.Join(row, " | "), percent(most.of[name].rate()/one.of[name].rate()))
	}
	tell("")
}

func mib(n float64) string { return fmt.Sprintf("%.0f MiB", n) }

// thousands writes a number as people do.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
