package telemetry

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"weir/schemas"
)

// maxTasks bounds the task_type label over the life of the process.
const maxTasks = 100

// taskSet says which task types may be named: Weir's own and those that the
// configuration has an agent for. A caller can write anything in their place.
type taskSet struct {
	mu    sync.Mutex
	named atomic.Pointer[map[string]struct{}] // never changed once stored
	seen  map[string]struct{}                 // every one that ever was in named
}

// has holds for a task type that may be named.
func (s *taskSet) has(taskType string) bool {
	if s != nil {
		if named := s.named.Load(); named != nil {
			if _, ok := (*named)[taskType]; ok {
				return true
			}
		}
	}
	return slices.Contains(schemas.BuiltinTasks(), taskType)
}

// set takes the task types of the configuration and returns those that are taken.
func (s *taskSet) set(taskTypes []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = make(map[string]struct{})
	}
	named := make(map[string]struct{}, len(taskTypes))
	var taken []string
	for _, t := range taskTypes {
		if _, ok := s.seen[t]; !ok && len(s.seen) >= maxTasks || !schemas.ValidID(t) {
			continue
		}
		s.seen[t], named[t] = struct{}{}, struct{}{}
		taken = append(taken, t)
	}
	s.named.Store(&named)
	return taken
}

// agentSeries describe the remote agents.
type agentSeries struct {
	tasks   *taskSet
	runs    *prometheus.GaugeVec
	breaker *prometheus.GaugeVec
}

func (m *Metrics) agents() {
	m.agent.tasks = new(taskSet)
	m.agent.runs = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_agent_runs", Help: "Runs that are with a remote agent now, by task type.",
	}, []string{"task_type"})
	m.agent.breaker = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_agent_breaker_open", Help: "1 while a remote agent is left alone because it failed too often in a row, until a run of it does well.",
	}, []string{"task_type"})
	m.registry.MustRegister(m.agent.runs, m.agent.breaker)
}

// SetAgents says for which task types the configuration has an agent; each gets
// series of its own, and may stand in the log. Over the life of the process at
// most 100 are taken, in the order given.
func (m *Metrics) SetAgents(taskTypes []string) {
	for _, t := range m.agent.tasks.set(taskTypes) {
		m.agent.runs.WithLabelValues(t)
		m.agent.breaker.WithLabelValues(t)
	}
}

// AgentRuns adds to the runs that are with an agent.
func (m *Metrics) AgentRuns(taskType string, change int) {
	m.agent.runs.WithLabelValues(m.agent.label(taskType)).Add(float64(change))
}

// AgentBreaker says whether an agent is left alone for now.
func (m *Metrics) AgentBreaker(taskType string, open bool) {
	value := 0.0
	if open {
		value = 1
	}
	m.agent.breaker.WithLabelValues(m.agent.label(taskType)).Set(value)
}

// label is that of a task type that ever was the configuration's: a run may
// outlast its agent's name there, and must leave the gauge that it entered.
func (s agentSeries) label(taskType string) string {
	s.tasks.mu.Lock()
	defer s.tasks.mu.Unlock()
	if _, ok := s.tasks.seen[taskType]; ok {
		return taskType
	}
	return other
}
