package tasks

import (
	"strconv"
	"sync"
	"time"

	"weir/internal/problem"
	"weir/schemas"
)

// maxWaits is how many requests of one lease may wait for answers on one node. An agent
// asks one thing at a time, and more where it is cut off and comes again.
const maxWaits = 8

// waits counts who waits, by lease.
type waits struct {
	mu sync.Mutex
	of map[holding]int
}

// Wait lets a visitor wait for an answer, until it leaves: a few at a time, else
// RATE_LIMITED. What was asked stays so, and is joined by who asks it again.
func (d *Desk) Wait(v Visit) (leave func(), err error) {
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
