// Package models finds the models that a request may be answered by: an exact name,
// an alias, or the pattern that fits best. It is pure.
package models

import (
	"fmt"
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

// Compile makes a set. Names, aliases and upstreams' names are each unique, and an
// alias names a model that is none; otherwise the error says which is not.
func Compile(list []schemas.Model) (*Set, error) {
	s := &Set{models: slices.Clone(list), byName: make(map[string]*schemas.Model, len(list))}
	slices.SortStableFunc(s.models, func(a, b schemas.Model) int { return strings.Compare(a.Name, b.Name) })
	owner := map[string]string{} // of an upstream's name
	for i := range s.models {
		m := &s.models[i]
		if i > 0 && s.models[i-1].Name == m.Name {
			return nil, fmt.Errorf("model %q is there twice", m.Name)
		}
		if err := whole(m, owner); err != nil {
			return nil, err
		}
		s.byName[m.Name] = m
	}
	s.names = NewNames(maps.Keys(s.byName))
	for i := range s.models {
		m := &s.models[i]
		if m.Alias == "" {
			continue
		}
		if of := s.lookup(m.Alias); of == nil {
			return nil, fmt.Errorf("model %q is an alias of %q, which is no model", m.Name, m.Alias)
		} else if of.Alias != "" {
			return nil, fmt.Errorf("model %q is an alias of %q, which is an alias itself", m.Name, m.Alias)
		}
	}
	return s, nil
}

// whole reports what is wrong with a model by itself, or with its upstreams' names
// among those that were seen before.
func whole(m *schemas.Model, owner map[string]string) error {
	switch {
	case !ValidPattern(m.Name):
		return fmt.Errorf("model %q has no name that a model or a pattern can have", m.Name)
	case m.Alias != "" && len(m.Upstreams) > 0:
		return fmt.Errorf("model %q is an alias and has upstreams", m.Name)
	case m.Alias != "":
		return nil
	case len(m.Upstreams) == 0:
		return fmt.Errorf("model %q has no upstream", m.Name)
	}
	for _, up := range m.Upstreams {
		if other, taken := owner[up.Name]; taken {
			return fmt.Errorf("upstream %q is one of model %q and of %q", up.Name, other, m.Name)
		}
		owner[up.Name] = m.Name
	}
	return nil
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

// ValidPattern reports whether a text is an exact name, name/* or *.
func ValidPattern(s string) bool {
	prefix, ok := strings.CutSuffix(s, "/*")
	return s == "*" || schemas.ValidModel(prefix) && (!ok || len(s) <= schemas.MaxModel)
}
