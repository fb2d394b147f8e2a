package tasks

import (
	"strconv"
	"sync"
	"time"

	"weir/internal/problem"
	"weir/schemas"
)

// maxWaits is how many requests of one lease may wait for answers on one node. An agent asks one
// question at a time, and more only after a disconnect.
const maxWaits = 8

// waits counts who waits, by lease.
type waits struct {
	mu sync.Mutex
	of map[holding]int
}

// Wait lets a visitor wait for an answer, until it leaves. Above a small limit it is RATE_LIMITED.
// The question stays, and a repeat joins it.
func (d *Service) Wait(v Access) (leave func(), err error) {
	w, who := d.waits, holding{v.Ref, v.Lease}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of[who] >= maxWaits {
		return nil, &problem.Error{
			Problem: schemas.Problem{
				Code: schemas.RateLimited, Detail: strconv.Itoa(maxWaits) + " requests for this task wait for answers already; " +
					"the question is kept, so ask it again once one of them has its answer",
			},
			RetryAfter: time.Second,
		}
	}
	w.of[who]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.of[who]--; w.of[who] == 0 {
			delete(w.of, who)
		}
	}, nil
}
