// Package models finds the models that a request may be answered by: an exact name,
// an alias, or the pattern that fits best. It is pure.
package models

import (
	"fmt"
	"slices"
	"strings"

	"weir/schemas"
)

// Set is the models in force. It is immutable; a nil Set has none.
type Set struct {
	models   []schemas.Model // by name
	exact    map[string]*schemas.Model
	patterns []*schemas.Model // the longest first
}

// Compile makes a set. Names, aliases and upstreams' names are each unique, and an
// alias names a model that is none; otherwise the error says which is not.
func Compile(list []schemas.Model) (*Set, error) {
	s := &Set{models: slices.Clone(list), exact: make(map[string]*schemas.Model, len(list))}
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
		if isPattern(m.Name) {
			s.patterns = append(s.patterns, m)
		} else {
			s.exact[m.Name] = m
		}
	}
	slices.SortStableFunc(s.patterns, func(a, b *schemas.Model) int { return len(b.Name) - len(a.Name) })
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
	if m, ok := s.exact[name]; ok {
		return m
	}
	for _, p := range s.patterns {
		if fits(p.Name, name) {
			return p
		}
	}
	return nil
}

// Usable reports whether a name is a model's that may be used: may fits the name itself
// or, where it is an alias, the one behind it. A nil may fits every name.
func (s *Set) Usable(asked string, may func(name string) bool) bool {
	_, name, ok := s.Find(asked)
	return ok && (may == nil || may(asked) || may(name))
}

// May reports whether one of a token's patterns fits a name; no patterns fit every name.
// A pattern is an exact name, a prefix with /* behind it, or *.
func May(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return fits(p, name) })
}

// fits reports whether a pattern or an exact name stands for a name. A pattern stands
// for itself too, and for narrower ones.
func fits(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return len(name) > len(prefix) && strings.HasPrefix(name, prefix)
	}
	return pattern == name
}

// ValidPattern reports whether a text is an exact name, name/* or *.
func ValidPattern(s string) bool {
	prefix, ok := strings.CutSuffix(s, "/*")
	return s == "*" || schemas.ValidModel(prefix) && (!ok || len(s) <= schemas.MaxModel)
}

func isPattern(name string) bool { return strings.HasSuffix(name, "*") }
