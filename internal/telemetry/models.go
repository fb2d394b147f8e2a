package telemetry

import (
	"slices"
	"sync"
	"sync/atomic"

	"weir/internal/models"
	"weir/schemas"
)

// maxPairs bounds the pairs of model and upstream over the life of the process, and
// maxBudgets the budget label: series of what is configured no more stay in the registry.
const (
	maxPairs   = 200
	maxBudgets = 100
)

// pair is a model of the configuration and one of its upstreams, both as labels.
type pair struct{ model, upstream string }

// modelSet says which pairs have series of their own.
type modelSet struct {
	mu    sync.Mutex
	seen  map[pair]struct{} // every one that ever was named
	named atomic.Pointer[namedModels]
}

// namedModels never changes once stored.
type namedModels struct {
	pairs map[pair]struct{}
	names models.Names
}

// set takes the models of the configuration and returns the pairs that are taken.
func (s *modelSet) set(list []schemas.Model) []pair {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = make(map[pair]struct{})
	}
	n := &namedModels{pairs: make(map[pair]struct{})}
	var taken []pair
	names := make([]string, 0, len(list))
	for _, m := range list {
		names = append(names, m.Name)
		for _, u := range m.Upstreams {
			p := pair{m.Name, u.Name}
			if _, ok := s.seen[p]; !ok && len(s.seen) >= maxPairs {
				continue
			}
			s.seen[p], n.pairs[p] = struct{}{}, struct{}{}
			taken = append(taken, p)
		}
	}
	n.names = models.NewNames(slices.Values(names))
	s.named.Store(n)
	return taken
}

// label is the pair of a call: a name that a pattern stands for is the pattern's. It is
// other on both sides where the configuration has none such.
func (s *modelSet) label(model, upstream string) pair {
	n := s.named.Load()
	if n == nil {
		return pair{other, other}
	}
	name, _ := n.names.Match(model)
	p := pair{name, upstream}
	if _, ok := n.pairs[p]; !ok {
		return pair{other, other}
	}
	return p
}

// budgetSet says which budgets have series of their own. A completion may outlast its
// budget's place in the configuration, so that none is taken away.
type budgetSet struct {
	mu   sync.Mutex
	seen map[string]struct{}
}

// set takes the budgets of the configuration and returns the names that have series.
func (s *budgetSet) set(budgets []schemas.Budget) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[string]struct{}{schemas.BudgetOfTask: {}, other: {}}
	}
	taken := []string{schemas.BudgetOfTask, other}
	for _, b := range budgets {
		if _, ok := s.seen[b.Name]; !ok && len(s.seen) >= maxBudgets+2 {
			continue
		}
		s.seen[b.Name] = struct{}{}
		taken = append(taken, b.Name)
	}
	return taken
}

func (s *budgetSet) label(budget string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.seen[budget]; ok {
		return budget
	}
	return other
}
