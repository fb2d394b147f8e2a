package app

import (
	"os"
	"runtime/debug"
)

// heapGrowth is how much the heap may grow between two collections, in percent of
// what is in use; Go's own is 100. Most of a busy node's heap are the buffers of
// streams that nothing happens on, and room beside these is never used. A node
// without them pays for it under full load: it spends 10 percent of its time on
// collections instead of 5.
const heapGrowth = 50

// tuneHeap leaves the word to the operator's GOGC if there is one.
func tuneHeap() {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(heapGrowth)
	}
}
