package runs

import (
	"context"
	"math/rand/v2"
	"time"

	"weir/internal/ledger"
	"weir/internal/limits"
	"weir/processors/call"
	"weir/schemas"
)

const (
	// inline is the longest time that a run waits in its worker's slot at a stretch.
	inline = 3 * time.Second
	// A run that found no free slot is deferred for up to firstRest, then for up to twice as long,
	// and at last for up to longRest; but never for less than half of that, so that runs that
	// arrived together do not retry together.
	firstDelay = 4 * time.Second
	// longestDelay bounds it: a free slot does not wake a run.
	longestDelay = 10 * time.Second
)

// acquireSlot takes a place at an agent, and waits for it a little. Where there is none
// the run is to rest.
func (m *Remote) acquireSlot(ctx context.Context, d *agentState, st *ledger.State, concurrency int, stop call.Stop) (leave func(), err error) {
	if after := d.breaker.remaining(); after > 0 {
		return nil, paused(after)
	}
	d.slots.Resize(limits.Percent(int64(concurrency), m.cfg.TenantShare))
	granted, release := d.slots.Enqueue(st.Tenant, 1)
	if err := m.awaitSlot(ctx, d, granted, st, stop); err != nil {
		release()
		return nil, err
	}
	m.cfg.Metrics.AgentRuns(d.taskType, 1)
	return func() {
		release()
		m.cfg.Metrics.AgentRuns(d.taskType, -1)
	}, nil
}

// awaitSlot waits until a place is granted.
func (m *Remote) awaitSlot(ctx context.Context, d *agentState, granted <-chan struct{}, st *ledger.State, stop call.Stop) error {
	select {
	case <-granted:
		return nil
	default:
	}
	leave, ok := m.waiting.TryAcquire(d)
	if !ok {
		return deferral(st, stop)
	}
	defer leave()
	if err := call.Pause(ctx, st, inline, stop, m.cfg.Draining, granted); err != nil {
		return err
	}
	select {
	case <-granted:
		return nil
	default:
		return deferral(st, stop)
	}
}

// deferral defers a run until it can try again for a slot, unless the run is over.
func deferral(st *ledger.State, stop call.Stop) error {
	delay := firstDelay
	for _, ev := range st.Events {
		if ev.Waiting != nil && ev.Waiting.For == schemas.WaitCapacity {
			delay = min(2*delay, longestDelay)
		}
	}
	delay = call.Within(st, delay/2+rand.N(delay/2)) //nolint:gosec // a spread, no secret
	if canceled, over := call.Over(st, stop, time.Now()); over || delay <= 0 {
		return ends(stopped(canceled))
	}
	return &call.Deferral{Until: time.Now().Add(delay), Reason: schemas.WaitCapacity}
}
