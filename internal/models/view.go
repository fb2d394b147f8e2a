package models

import (
	"cmp"
	"math/big"
	"slices"
	"strings"
	"time"

	"weir/schemas"
)

// Scope is what a reader of GET /models may see, and what is known beside the configuration.
type Scope struct {
	// Patterns match the only models that the reader may use; none: all.
	Patterns []string
	// Entry says which entries of the policy it may use; nil: all.
	Entry func(entry string) bool
	// Lists returns an upstream's own list of models; nil: there are no lists.
	Lists func(up schemas.ModelUpstream) []schemas.ListedModel
}

func (c Scope) may(name string) bool { return May(c.Patterns, name) }

func (c Scope) enters(up schemas.ModelUpstream) bool {
	return c.Entry == nil || c.Entry(schemas.ModelEntry(up.Name))
}

// lists is the own list of an upstream that the reader may use.
func (c Scope) lists(up schemas.ModelUpstream) []schemas.ListedModel {
	if c.Lists == nil || !c.enters(up) {
		return nil
	}
	return c.Lists(up)
}

// reaches reports whether one of a model's upstreams may be called.
func (c Scope) reaches(m *schemas.Model) bool { return slices.ContainsFunc(m.Upstreams, c.enters) }

// List are the models that a reader may use, sorted by name. A pattern adds the names that its
// upstreams list, and the exact names of the reader's own patterns that it matches.
func (s *Set) List(c Scope) []schemas.ModelView {
	list := []schemas.ModelView{}
	if s == nil {
		return list
	}
	seen := map[string]bool{}
	add := func(asked, name string, m *schemas.Model, l schemas.ListedModel) {
		if !seen[asked] {
			seen[asked] = true
			list = append(list, view(asked, name, m, l))
		}
	}
	for i := range s.models {
		switch m := &s.models[i]; {
		case !isPattern(m.Name):
			if of, name, _ := s.Find(m.Name); (c.may(m.Name) || c.may(name)) && c.reaches(of) {
				add(m.Name, name, of, c.find(of, name))
			}
		case m.Alias == "":
			for _, up := range m.Upstreams {
				for _, l := range c.lists(up) {
					if name, ok := nameOf(m, up, l.ID); ok && c.may(name) && s.lookup(name) == m {
						add(name, name, m, l)
					}
				}
			}
		}
	}
	for _, name := range c.Patterns {
		if m, behind, ok := s.Find(name); ok && c.reaches(m) {
			add(name, behind, m, c.find(m, behind))
		}
	}
	slices.SortFunc(list, func(a, b schemas.ModelView) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// find is what the first upstream that lists a model says of it; the zero value: none does.
func (c Scope) find(m *schemas.Model, name string) schemas.ListedModel {
	if isPattern(m.Name) {
		for _, up := range m.Upstreams {
			for _, l := range c.lists(up) {
				if l.ID == sent(m, up, name) {
					return l
				}
			}
		}
	}
	return schemas.ListedModel{}
}

// View is the model that a name stands for, as GET /models/<name> shows it. A name that only a
// pattern matches is one too.
func (s *Set) View(asked string, c Scope) (schemas.ModelView, bool) {
	m, name, ok := s.Find(asked)
	if !ok || !s.Usable(asked, c.may) || !c.reaches(m) {
		return schemas.ModelView{}, false
	}
	return view(asked, name, m, c.find(m, name)), true
}

// Listing are the upstreams whose own lists can add names to that of GET /models.
func (s *Set) Listing() []schemas.ModelUpstream {
	var all []schemas.ModelUpstream
	if s == nil {
		return nil
	}
	for _, m := range s.models {
		for _, up := range m.Upstreams {
			if isPattern(m.Name) && (up.Model == "" || strings.Contains(up.Model, "*")) {
				all = append(all, up)
			}
		}
	}
	return all
}

// nameOf is the name by which a pattern's model is requested that an upstream knows as id; ok is
// false if there is none.
func nameOf(m *schemas.Model, up schemas.ModelUpstream, id string) (name string, ok bool) {
	name = id
	if up.Model != "" {
		head, tail, star := strings.Cut(up.Model, "*")
		rest, begins := strings.CutPrefix(id, head)
		rest, ends := strings.CutSuffix(rest, tail)
		if !star || !begins || !ends {
			return "", false
		}
		name = strings.TrimSuffix(m.Name, "*") + rest
	}
	return name, schemas.ValidModel(name) && fits(m.Name, name) && sent(m, up, name) == id
}

// view shows a model by the name that it is asked for; name is the one behind the alias, and l is
// what its provider says of it.
func view(asked, name string, m *schemas.Model, l schemas.ListedModel) schemas.ModelView {
	v := schemas.ModelView{
		ID: asked, Object: "model", Type: "model", Created: l.Created, CreatedAt: time.Unix(l.Created, 0).UTC(),
		OwnedBy: m.Upstreams[0].Name, DisplayName: cmp.Or(l.DisplayName, asked), ContextLength: cmp.Or(m.Context, l.Context),
	}
	if name != asked {
		v.AliasOf = name
	}
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
