package runs

import (
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
	case faulty(r.Last.Result):
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

// faulty reports whether a call ended in a way that speaks of the agent, not of
// the run.
func faulty(res *schemas.Attempted) bool {
	return call.Faulty(res) && (res.Code != "" || !agent.NoRoute(res.Status))
}
