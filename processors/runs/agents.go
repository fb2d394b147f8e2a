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

// agentState has an agent's circuit breaker and its places for runs.
type agentState struct {
	url, taskType string
	breaker       *breaker
	slots         *limits.Shares // of the agent's concurrent runs
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
		at.breaker.retire() // active runs still release their places there
		delete(d.byType, taskType)
		at = nil
	}
	if at == nil && found {
		at = &agentState{
			url: a.URL, taskType: taskType, slots: limits.NewShares(limits.Division{}),
			breaker: &breaker{changed: func(open bool) { d.metrics.AgentBreaker(taskType, open) }},
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
