package runs

import (
	"sync"

	"weir/internal/limits"
	"weir/schemas"
)

// queued is how many runs wait for room at one agent in their workers' slots at a
// time: the slots are others' as well.
const queued = 8

// agentStates are the desks of the agents, one for each task type. A desk belongs to one URL: an agent
// that moves gets a new one.
type agentStates struct {
	find    func(taskType string) (schemas.Agent, bool)
	metrics Metrics

	mu     sync.Mutex
	byType map[string]*agentState
}

// of is the agent that serves a task type now, and its desk. Both are read at once, so that a
// reader with an older configuration cannot restore an older desk.
func (d *agentStates) of(taskType string) (a schemas.Agent, at *agentState, found bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reread(taskType)
}

func (d *agentStates) reread(taskType string) (a schemas.Agent, at *agentState, found bool) {
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

// refresh closes the desks of the agents that have moved or are gone.
func (d *agentStates) refresh() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for taskType := range d.byType {
		d.reread(taskType)
	}
}

// agentState counts the runs that are with an agent, and knows whether it is well.
type agentState struct {
	url, taskType string
	breaker       *breaker
	metrics       Metrics
	places        *limits.Shares // among the runs that are with the agent

	mu      sync.Mutex
	retired bool // another desk speaks for the task type, or none
	waiting int
}

func newAgentState(taskType, url string, m Metrics) *agentState {
	d := &agentState{url: url, taskType: taskType, metrics: m, places: limits.NewShares(limits.Division{})}
	d.breaker = newBreaker(d.reportBreaker)
	return d
}

// reportBreaker says whether the agent is left alone, for as long as the desk is its own.
func (d *agentState) reportBreaker(open bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.metrics != nil && !d.retired {
		d.metrics.AgentBreaker(d.taskType, open)
	}
}

// retire ends what the desk says of the agent. Runs that are with it still leave
// by it.
func (d *agentState) retire() {
	d.reportBreaker(false)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retired = true
}

// join takes a place for a run of a tenant, or waits for one until it leaves; as limits.Shares has it.
func (d *agentState) join(tenant string, all limits.Division) (granted <-chan struct{}, leave func()) {
	d.places.Resize(all)
	return d.places.Join(tenant, 1)
}

// count adds to the number of the agent's active runs.
func (d *agentState) count(change int) {
	if d.metrics != nil {
		d.metrics.AgentRuns(d.taskType, change)
	}
}

// queue joins those who wait for a place; ok is false where they are too many.
func (d *agentState) queue() (leave func(), ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting >= queued {
		return nil, false
	}
	d.waiting++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.waiting--
	}, true
}
