package app

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// heapGrowth is how much a large heap may grow between two collections, in percent of
// what is in use; Go's own is 100. Most of such a heap are the buffers of streams that
// nothing happens on, and room beside these is never used.
const heapGrowth = 50

// heapRoom is how many bytes any heap may grow by between two collections. Ten megabytes
// are in use on a node that does nothing but short calls: with half of that as room it
// would collect twenty times a second under full load, for a tenth of its time.
const heapRoom = 32 << 20

// Above largeHeap most of what is in use is the server's knowledge of the subjects of a long
// log, millions of small things that each collection walks through: there a heap may grow by
// as much again. With a backlog of a million a quarter of all time went into collections
// with half of that.
const (
	largeHeap       = 256 << 20
	largeHeapGrowth = 100
)

// tuneHeap leaves the word to the operator's GOGC if there is one.
func tuneHeap() {
	if _, set := os.LookupEnv("GOGC"); set {
		return
	}
	t := &tuner{percent: heapGrowth}
	debug.SetGCPercent(t.percent)
	t.afterCollection()
}

// tuner sets the growth anew after each collection. Its calls do not overlap: the next
// collection is heard of once the last one was seen to.
type tuner struct{ percent int }

// afterCollection waits for the next one without a goroutine.
func (t *tuner) afterCollection() {
	runtime.AddCleanup(&struct{ of *tuner }{t}, (*tuner).tune, t)
}

func (t *tuner) tune() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	// To set it stops the world for a moment: not for a little.
	if want := growth(live[0].Value.Uint64()); want > t.percent+t.percent/4 || want < t.percent-t.percent/4 {
		t.percent = want
		debug.SetGCPercent(want)
	}
	t.afterCollection()
}

// growth is how many percent of what is in use are room enough.
func growth(live uint64) int {
	const least = 1 << 20 // nothing is in use before the first collection
	if live >= largeHeap {
		return largeHeapGrowth
	}
	return max(heapGrowth, int(heapRoom*100/max(live, least))) //nolint:gosec // at most 3200
}
