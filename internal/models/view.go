package models

import (
	"math/big"
	"slices"
	"strings"

	"weir/schemas"
)

// Views are the models for GET /models, patterns too, by name. May says which names may be
// used, and entry which policy entries, as in Candidates: a model that cannot be asked
// anywhere is left out.
func (s *Set) Views(may func(name string) bool, entry func(entry string) bool) []schemas.ModelView {
	list := []schemas.ModelView{}
	if s == nil {
		return list
	}
	for i := range s.models {
		m := &s.models[i]
		of, name := m, m.Name
		if m.Alias != "" {
			of, name = s.lookup(m.Alias), m.Alias
		}
		if (may == nil || may(m.Name) || may(name)) && reachable(of, entry) {
			list = append(list, view(m.Name, name, of))
		}
	}
	return list
}

// List are the views for a token whose patterns these are: what Views has for it, and
// the exact names among them that only a pattern of the configuration fits.
func (s *Set) List(patterns []string, entry func(entry string) bool) []schemas.ModelView {
	may := func(name string) bool { return May(patterns, name) }
	list := s.Views(may, entry)
	for _, p := range patterns {
		v, ok := s.View(p, may, entry)
		if ok && !slices.ContainsFunc(list, func(o schemas.ModelView) bool { return o.ID == p }) {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b schemas.ModelView) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// View is what a name stands for, as GET /models/<name> shows it: a model that only a
// pattern fits is one too, and so is a pattern by its own name.
func (s *Set) View(asked string, may func(name string) bool, entry func(entry string) bool) (schemas.ModelView, bool) {
	m, name, ok := s.Find(asked)
	if ok && s.Usable(asked, may) && reachable(m, entry) {
		return view(asked, name, m), true
	}
	if isPattern(asked) {
		for _, v := range s.Views(may, entry) {
			if v.ID == asked {
				return v, true
			}
		}
	}
	return schemas.ModelView{}, false
}

// reachable reports whether one of a model's upstreams may be called.
func reachable(m *schemas.Model, entry func(entry string) bool) bool {
	return entry == nil || slices.ContainsFunc(m.Upstreams, func(up schemas.ModelUpstream) bool {
		return entry(schemas.ModelEntry(up.Name))
	})
}

// view shows a model by the name that it is asked for; name is the one behind the alias.
func view(asked, name string, m *schemas.Model) schemas.ModelView {
	v := schemas.ModelView{ID: asked, Object: "model", OwnedBy: m.Upstreams[0].Name, ContextLength: m.Context}
	if owner, _, ok := strings.Cut(name, "/"); ok {
		v.OwnedBy = owner
	}
	if p := m.Price; p != nil {
		v.Pricing = &schemas.ModelPricing{Prompt: dollars(p.Input, 1e12), Completion: dollars(p.Output, 1e12), Request: dollars(p.Request, 1e9)}
	}
	return v
}

// dollars is an amount in parts of a dollar as a decimal text without zeros at its end.
func dollars(amount, parts int64) string {
	text := big.NewRat(amount, parts).FloatString(12)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
