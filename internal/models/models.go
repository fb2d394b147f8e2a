// Package models finds the models that a request may be answered by: an exact name,
// an alias, or the pattern that fits best. It is pure.
package models

import (
	"maps"
	"slices"
	"strings"

	"weir/schemas"
)

// Set is the models in force. It is immutable; a nil Set has none.
type Set struct {
	models []schemas.Model // by name
	byName map[string]*schemas.Model
	names  Names
}

// New makes a set of models that the configuration has checked: names, aliases and upstreams' names
// are each unique, and an alias names a model that is no alias.
func New(list []schemas.Model) *Set {
	s := &Set{models: slices.Clone(list), byName: make(map[string]*schemas.Model, len(list))}
	slices.SortStableFunc(s.models, func(a, b schemas.Model) int { return strings.Compare(a.Name, b.Name) })
	for i := range s.models {
		s.byName[s.models[i].Name] = &s.models[i]
	}
	s.names = NewNames(maps.Keys(s.byName))
	return s
}

// Find is the model that a name stands for: the exact one, then what the alias names,
// then the longest pattern. name is the one it was found by behind the alias.
func (s *Set) Find(asked string) (m *schemas.Model, name string, ok bool) {
	if s == nil || !schemas.ValidModel(asked) {
		return nil, "", false
	}
	if m = s.lookup(asked); m == nil {
		return nil, "", false
	}
	if m.Alias == "" {
		return m, asked, true
	}
	return s.lookup(m.Alias), m.Alias, true
}

// lookup is the model, pattern or alias that a name is found by.
func (s *Set) lookup(name string) *schemas.Model {
	by, _ := s.names.Match(name)
	return s.byName[by]
}

// Usable reports whether a name is a model's that may be used: may accepts the name itself
// or the model of the alias. A nil may accepts every name.
func (s *Set) Usable(asked string, may func(name string) bool) bool {
	_, name, ok := s.Find(asked)
	return ok && (may == nil || may(asked) || may(name))
}

// ValidPattern reports whether a text is an exact name, or a pattern: *, or the beginning of names
// with * after it, such as openai/* or claude-*.
func ValidPattern(s string) bool {
	prefix, ok := strings.CutSuffix(s, "*")
	if ok {
		prefix = strings.TrimSuffix(prefix, "/")
	}
	return s == "*" || schemas.ValidModel(prefix) && len(s) <= schemas.MaxModel
}
