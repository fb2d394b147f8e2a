//go:build nightly

package bench_test

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/weirtest/poll"
)

// shift is how fast so many workers have worked off what was queued before they came.
type shift struct {
	workers int
	ideal   float64 // calls a second if nothing but the target took time
	rate    float64 // while no queue was empty
	whole   float64 // to the last one
	used    usage
}

// fifths: the rate is that of the first four, because at the end some queues are empty
// before others.
const fifths = 5

// measureWorkers has 1, 2, 4 and 8 workers do work of which each can only do so much at a
// time: a call takes long and no processor. It prints how much more several do than one.
func measureWorkers(t *testing.T, g *ground) {
	t.Helper()
	numbersOf := sized(numbers(t, *crews), []int{1, 2})
	all := make(map[int][]shift)
	for range sized(*rounds, 1) {
		for _, n := range numbersOf {
			s := g.shift(t, n)
			all[n] = append(all[n], s)
			say("R%d, %d workers: %.0f calls/s of %.0f", g.copies, n, s.rate, s.ideal)
		}
	}
	showShifts(g, numbersOf, all)
}

// shift queues work for so many workers, starts them, and opens the target when each of
// them has as much to do as it can.
func (g *ground) shift(t *testing.T, n int) shift {
	t.Helper()
	atOnce := n * sized(*slots, 2) * g.partitions
	s := shift{workers: n, ideal: float64(atOnce) / takes.Seconds()}
	load := sized(int(s.ideal*worked.Seconds())/fifths*fifths, 12*fifths*n)
	l := g.target.lot(load, *takes)
	g.put(t, l, load)
	crew := g.crew(t, n, sized(*slots, 2))
	poll.Until(t, func() bool { return l.waiting.Load() == int64(atOnce) }, "every slot works")
	m := l.mark(load/fifths, fifths)
	stop := g.meter(crew...)
	begun := time.Now()
	l.open()
	var at time.Time
	for i := range fifths {
		at = l.reached(t, m)
		if i == fifths-2 {
			s.rate = float64(load/fifths*(fifths-1)) / at.Sub(begun).Seconds()
			s.used = stop()
		}
	}
	s.whole = float64(load) / at.Sub(begun).Seconds()
	settledBy(t, crew, load)
	l.whole(t)
	dismiss(t, crew)
	l.whole(t)
	return s
}

func showShifts(g *ground, crews []int, all map[int][]shift) {
	tell("\n%s; three NATS servers that sync each write, log R%d in %d partitions, `workers.slots` %d, a target that takes %s, %s of work, median of %d\n",
		machine(), g.copies, g.partitions, *slots, *takes, *worked, *rounds)
	tell("| workers | ideal | calls/s | of ideal | of linear | to the last | machine busy | NATS | Weir |")
	tell("|---|---|---|---|---|---|---|---|---|")
	alone := 0.0
	for _, n := range crews {
		of := func(f func(shift) float64) float64 { return median(all[n], f) }
		rate, ideal := of(func(s shift) float64 { return s.rate }), of(func(s shift) float64 { return s.ideal })
		if alone == 0 {
			alone = rate / float64(n)
		}
		used := usage{
			machine: of(func(s shift) float64 { return s.used.machine }),
			servers: of(func(s shift) float64 { return s.used.servers }),
			weir:    of(func(s shift) float64 { return s.used.weir }),
		}
		tell("| %d | %.0f | %.1f | %s | %s | %.1f | %s |", n, ideal, rate, percent(rate/ideal), percent(rate/(alone*float64(n))),
			of(func(s shift) float64 { return s.whole }), used)
	}
	tell("")
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }
