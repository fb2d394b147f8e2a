//go:build e2e

package corpus_test

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"weir/internal/weirtest/upstream"
)

// taken is the most that an upstream may get rid of in one attempt: the largest
// body we read, and what the kernel holds on both sides of the connection.
const taken = 32 << 20

// weigh runs a row alone in the process, and watches the heap and how much the
// upstream could send. The heap holds the upstream too.
func weigh(t *testing.T, r *outboundRow, authority *upstream.Authority) {
	t.Helper()
	l, s := newLane(t, r, authority), newStage(t, r, authority)
	runtime.GC()
	before := heap()
	peak, stop := make(chan uint64, 1), make(chan struct{})
	go func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		most := uint64(0)
		for {
			most = max(most, heap())
			select {
			case <-tick.C:
			case <-stop:
				peak <- most
				return
			}
		}
	}()
	x := l.run(t, r, s)
	close(stop)
	grown := int64(<-peak) - int64(before)
	x.judge(t)
	limit := int64(number(t, r.Assert["max_rss_mb"])) << 20
	assert.Less(t, grown, limit, "the heap grew")
	assert.LessOrEqual(t, s.server.Written(), int64(max(1, x.attempts()))*taken, "the upstream got rid of too much")
}

// heap is the bytes of live objects and of dead ones that are not swept yet.
func heap() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
