package telemetry

import (
	"slices"
	"sync"

	"weir/internal/models"
	"weir/schemas"
)

// bounded says which values of the configuration have series of their own. A value that is
// removed from the configuration keeps its series, so there are at most most of them over the
// life of the process.
type bounded[T comparable] struct {
	most int

	mu    sync.RWMutex
	named map[T]bool // all that ever were; true: in the configuration
}

// set replaces the values of the configuration and returns those that have series.
func (b *bounded[T]) set(values []T) (taken []T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.named == nil {
		b.named = map[T]bool{}
	}
	for v := range b.named {
		b.named[v] = false
	}
	for _, v := range values {
		if _, seen := b.named[v]; seen || len(b.named) < b.most {
			b.named[v] = true
			taken = append(taken, v)
		}
	}
	return taken
}

// has reports whether the configuration has a value or, with ever, once had it.
func (b *bounded[T]) has(v T, ever bool) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	named, seen := b.named[v]
	return named || ever && seen
}

// orOther is a label if it has series of its own.
func orOther(value string, named bool) string {
	if named {
		return value
	}
	return other
}

// SetHosts sets the hosts that policy names, as it spells them; each gets series of its own in
// executor_http_*, all others share "other". Over the life of the process at most 100 hosts are
// taken, in the order given; it may be called again when policy is loaded anew. Before the first
// call every host is "other".
func (m *Metrics) SetHosts(hosts []string) { m.hosts.set(hosts) }

// host is the label of a host. It does not allocate.
func (m *Metrics) host(host string) string { return orOther(host, m.hosts.has(host, false)) }

// SetAgents sets the task types for which the configuration has an agent; each
// gets series of its own, and may appear in the log. Over the life of the process
// at most 100 are taken, in the order given.
func (m *Metrics) SetAgents(taskTypes []string) {
	valid := slices.DeleteFunc(slices.Clone(taskTypes), func(t string) bool { return !schemas.ValidID(t) })
	for _, t := range m.tasks.set(valid) {
		m.agentRuns.WithLabelValues(t)
		m.agentBreaker.WithLabelValues(t)
	}
}

// pair has the labels of a configured model and of one of its upstreams.
type pair struct{ upstream, model string }

// SetModels sets the models of the configuration in force and their upstreams; every such pair
// gets series of its own. Any other model that a caller writes is "other", and so is every pair
// after the first 200 of the life of the process.
func (m *Metrics) SetModels(list []schemas.Model) {
	var names []string
	var pairs []pair
	for _, model := range list {
		names = append(names, model.Name)
		for _, u := range model.Upstreams {
			pairs = append(pairs, pair{u.Name, model.Name})
		}
	}
	chat := schemas.DialectChat.Operation()
	for _, p := range m.pairs.set(pairs) {
		m.chatTokens.WithLabelValues(chat, p.upstream, p.model, "input")
		m.chatTokens.WithLabelValues(chat, p.upstream, p.model, "output")
		m.chatDuration.WithLabelValues(chat, p.upstream, p.model, "")
		m.chatFirst.WithLabelValues(chat, p.upstream, p.model)
		m.chatCost.WithLabelValues(p.upstream, p.model)
	}
	all := models.NewNames(slices.Values(names))
	m.names.Store(&all)
}

// pair is the label of a call. A name that a pattern matches is the pattern's. It is other on
// both sides if the configuration has no such pair.
func (m *Metrics) pair(model, upstream string) pair {
	p := pair{upstream: upstream}
	if names := m.names.Load(); names != nil {
		p.model, _ = names.Match(model)
	}
	if !m.pairs.has(p, false) {
		return pair{other, other}
	}
	return p
}

// SetBudgets sets the budgets of the configuration in force; each gets a series of
// its own, up to 100 over the life of the process, beside that of tasks.
func (m *Metrics) SetBudgets(budgets []schemas.Budget) {
	names := []string{schemas.BudgetOfTask, other}
	for _, b := range budgets {
		names = append(names, b.Name)
	}
	for _, name := range m.budgets.set(names) {
		m.chatRefused.WithLabelValues(name)
	}
}
