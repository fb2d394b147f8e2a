package tasks

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/internal/task"
	"weir/schemas"
)

// touches writes down when the holders of leases were last heard of, each lease not
// more often than every so often.
type touches struct {
	leases Leases
	every  time.Duration
	now    func() time.Time

	mu    sync.Mutex
	last  map[holding]time.Time
	swept time.Time
}

type holding struct {
	ref   schemas.Ref
	lease int
}

func newTouches(l Leases, every time.Duration, now func() time.Time) *touches {
	return &touches{leases: l, every: every, now: now, last: map[holding]time.Time{}}
}

// Touch keeps a lease, as every request of its holder does: for those that last longer.
// It may be called as often as one likes; lease 0 is never lost. A write that fails
// is left to the next call.
func (d *Service) Touch(ctx context.Context, ref schemas.Ref, lease int) {
	if lease == 0 || !d.touch.due(ref, lease) {
		return
	}
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	if _, err := d.touch.leases.Set(ctx, task.LeaseKey(ref, lease), task.EncodeHeartbeat(lease)); err != nil {
		d.touch.forget(ref, lease)
	}
}

// Hold keeps a lease for a request of its holder that lasts long, until it is released;
// who holds none needs nothing kept.
func (d *Service) Hold(g task.Grant) (release func()) {
	if g.TaskID == "" || g.Lease == 0 {
		return func() {}
	}
	ctx, end := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		tick := time.NewTicker(d.touch.every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				d.Touch(ctx, g.Task(), g.Lease)
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { end(); work.Wait() }
}

// due reports whether it is time to write, and if so reserves the write for the caller.
func (t *touches) due(ref schemas.Ref, lease int) bool {
	now, of := t.now(), holding{ref, lease}
	t.mu.Lock()
	defer t.mu.Unlock()
	if was, ok := t.last[of]; ok && t.fresh(was, now) {
		return false
	}
	t.last[of] = now
	if !t.fresh(t.swept, now) {
		maps.DeleteFunc(t.last, func(_ holding, was time.Time) bool { return !t.fresh(was, now) })
		t.swept = now
	}
	return true
}

// fresh also reports that a clock was not set back since.
func (t *touches) fresh(was, now time.Time) bool {
	age := now.Sub(was)
	return age >= 0 && age < t.every
}

func (t *touches) forget(ref schemas.Ref, lease int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, holding{ref, lease})
}

// maxWaits is how many requests of one lease may wait for answers on one node. An agent asks one
// question at a time, and more only after a disconnect.
const maxWaits = 8

// Wait lets a visitor wait for an answer, until it leaves. Above a small limit it is RATE_LIMITED.
// The question stays, and a repeat joins it.
func (d *Service) Wait(v Access) (leave func(), err error) {
	leave, ok := d.waits.TryAcquire(holding{v.Ref, v.Lease})
	if !ok {
		err = &fault.Error{
			Code: schemas.RateLimited, RetryAfter: time.Second, Message: strconv.Itoa(maxWaits) + " requests for this task wait for " +
				"answers already; the question is kept, so ask it again once one of them has its answer",
		}
	}
	return leave, err
}
