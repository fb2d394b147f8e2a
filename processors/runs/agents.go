package runs

import (
	"sync"

	"weir/internal/limits"
	"weir/schemas"
)

// queued is how many runs may wait for one agent in their workers' slots, which all agents share.
const queued = 8

// agents are the states of the agents, one for each task type. A state belongs to one URL: an
// agent that moves gets a new one.
type agents struct {
	find    func(taskType string) (schemas.Agent, bool)
	metrics Metrics
	waiting *limits.PerKey[*agentState] // runs without a place

	mu     sync.Mutex
	byType map[string]*agentState
}

// of is the agent that serves a task type now, and its state. Both are read at once, so that a
// reader with an older configuration cannot restore an older state.
func (d *agents) of(taskType string) (a schemas.Agent, at *agentState, found bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reread(taskType)
}

// reread is of; the lock is held.
func (d *agents) reread(taskType string) (a schemas.Agent, at *agentState, found bool) {
	a, found = d.find(taskType)
	at = d.byType[taskType]
	if at != nil && (!found || at.url != a.URL) {
		at.retire()
		delete(d.byType, taskType)
		at = nil
	}
	if at == nil && found {
		at = newAgentState(taskType, a.URL, d.metrics)
		if d.byType == nil {
			d.byType = make(map[string]*agentState)
		}
		d.byType[taskType] = at
	}
	return a, at, found
}

// refresh retires the states of agents that have moved or are gone.
func (d *agents) refresh() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for taskType := range d.byType {
		d.reread(taskType)
	}
}

// agentState has an agent's circuit breaker and its places for runs.
type agentState struct {
	url, taskType string
	breaker       *breaker
	metrics       Metrics
	slots         *limits.Shares // of the agent's concurrent runs

	mu      sync.Mutex
	retired bool // it was replaced or removed
}

func newAgentState(taskType, url string, m Metrics) *agentState {
	d := &agentState{url: url, taskType: taskType, metrics: m, slots: limits.NewShares(limits.Division{})}
	d.breaker = &breaker{changed: d.reportBreaker}
	return d
}

// reportBreaker reports whether the breaker is open, until the state is retired.
func (d *agentState) reportBreaker(open bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.retired {
		d.metrics.AgentBreaker(d.taskType, open)
	}
}

// retire ends the reports. Active runs still release their places here.
func (d *agentState) retire() {
	d.reportBreaker(false)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retired = true
}
