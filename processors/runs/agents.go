package runs

import (
	"context"
	"math/rand/v2"
	"time"

	"weir/internal/ledger"
	"weir/internal/limits"
	"weir/processors/call"
	"weir/processors/call/agent"
	"weir/schemas"
)

// queued is how many runs may wait for one agent in their workers' slots, which all agents share.
const queued = 8

// agentState has an agent's circuit breaker and its places for runs. It belongs to one URL: an agent
// that moves gets a new one.
type agentState struct {
	url, taskType string
	breaker       *breaker
	slots         *limits.Shares // of the agent's concurrent runs
}

// agent is the agent that serves a task type now, and its state. Both are read at once, so that a
// reader with an older configuration cannot restore an older state.
func (m *Remote) agent(taskType string) (a schemas.Agent, at *agentState, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reread(taskType)
}

// reread is agent; the lock is held.
func (m *Remote) reread(taskType string) (a schemas.Agent, at *agentState, found bool) {
	a, found = m.cfg.Agents(taskType)
	at = m.byType[taskType]
	if at != nil && (!found || at.url != a.URL) {
		at.breaker.retire() // active runs still release their places there
		delete(m.byType, taskType)
		at = nil
	}
	if at == nil && found {
		at = &agentState{
			url: a.URL, taskType: taskType, slots: limits.NewShares(limits.Division{}),
			breaker: &breaker{changed: func(open bool) { m.cfg.Metrics.AgentBreaker(taskType, open) }},
		}
		m.byType[taskType] = at
	}
	return a, at, found
}

// Refresh is called when other agents have come into force: nothing is said any
// more of those that have moved or are gone.
func (m *Remote) Refresh() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for taskType := range m.byType {
		m.reread(taskType)
	}
}

// acquire permits one call, unless the breaker is open; after its time it permits a single probe.
func (d *agentState) acquire(st *ledger.State) (*callPermit, error) {
	probe, ok := d.breaker.acquire()
	if !ok {
		return nil, paused(max(d.breaker.remaining(), time.Second))
	}
	return &callPermit{breaker: d.breaker, state: st, before: len(st.Attempts), probe: probe}, nil
}

// callPermit permits one call, and passes its result to the breaker. It belongs to one goroutine.
type callPermit struct {
	breaker *breaker
	state   *ledger.State
	before  int  // the number of earlier attempts
	probe   bool // no other call may start until this one has a result
}

// answering records that the agent begins to answer. A probe that got this far counts as
// successful: its run may take hours.
func (t *callPermit) answering(status int) {
	if t.probe && status < 500 {
		t.probe = false
		t.breaker.trial()
	}
}

// learn hears how the call came out. That the run's own time was up is no fault of
// the agent's, and an attempt of an earlier turn says nothing of it now, nor does
// one that a traffic rule answered, or for whose answer there was no memory.
func (t *callPermit) learn(r call.Result) {
	switch {
	case len(t.state.Attempts) == t.before || r.Last == nil || r.Denied || r.Canceled || r.Expired || r.Last.Mocked() || r.Last.Result.NoMemory:
	case call.Faulty(r.Last.Result) && (r.Last.Result.Code != "" || !agent.NoRoute(r.Last.Result.Status)):
		t.breaker.failure(t.probe)
		return
	case r.Last.Result.Status != 0:
		t.breaker.success()
		return
	}
	if t.probe { // it has shown nothing
		t.breaker.returned(t.sent())
	}
}

// sent reports whether anything may have reached the agent in this turn.
func (t *callPermit) sent() bool {
	for _, try := range t.state.Attempts[t.before:] {
		if try.Result == nil || try.Result.Sent {
			return true
		}
	}
	return false
}

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
	if err := call.Await(ctx, call.Within(st, inline), stop.Done(), m.cfg.Draining, granted); err != nil {
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
