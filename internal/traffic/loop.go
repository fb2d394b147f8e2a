package traffic

import (
	"slices"
	"time"

	"weir/internal/policy"
	"weir/schemas"
)

// reach bounds how many redirects are followed in search of a circle, and how many
// of these may have wildcards: what these lead to can grow for ever. A circle
// beyond it is missed, which does no harm: only the first redirect is ever made.
type reach struct{ all, filled int }

// The reaches for a call, for a rule that is written, and for each other redirect
// of its set.
func callReach() reach  { return reach{64, 8} }
func ruleReach() reach  { return reach{schemas.MaxRules + 64, 64} }
func otherReach() reach { return reach{32, 16} }

// circle follows the redirects behind a first one, which led from a site to a URL,
// and reports whether they come back to where they have been. It calls nothing: it
// asks next which rule a call would go by.
func circle(from *site, url string, far reach, next func(*site) *rule) bool {
	var buf [10]policy.Parts
	visited := append(buf[:0], from.Parts)
	for far.all > 0 && far.filled > 0 {
		at, ok := readSite(url, false)
		if !ok {
			return false
		}
		if slices.Contains(visited, at.Parts) {
			return true
		}
		r := next(&at)
		if r == nil || r.Type != schemas.RuleRedirect {
			return false
		}
		visited = append(visited, at.Parts)
		url = r.redirect(&at)
		if len(r.target.refs) > 0 {
			far.filled--
		}
		far.all--
	}
	return false
}

// Circular is the id of a redirect of the set that leads in a circle with rule r
// in it, as far as that can be seen without a call; empty: none is seen. It takes
// r for enabled, no rule for expired and the rules for active.
func (s *Set) Circular(r schemas.Rule) string {
	with, err := s.With(r)
	if err != nil || r.Type != schemas.RuleRedirect {
		return ""
	}
	self := slices.IndexFunc(with.rules, func(o rule) bool { return o.ID == r.ID })
	with.rules[self].Enabled = true
	for i := range with.rules {
		start := &with.rules[i]
		if start.Type != schemas.RuleRedirect || !start.Enabled {
			continue
		}
		far := otherReach()
		if i == self {
			far = ruleReach()
		}
		if id := with.circleFrom(start, &with.rules[self], far); id != "" {
			return id
		}
	}
	return ""
}

// circleFrom looks for a circle with the rule self in it, beginning at URLs that
// the rule start is for.
func (s *Set) circleFrom(start, self *rule, far reach) string {
	facts, ok := meet(start.Scope, self.Scope)
	if !ok {
		return ""
	}
	for _, method := range s.methods(start, self) {
		for _, at := range start.pattern.specimens() {
			if id := s.circleAt(&at, method, &facts, self, far); id != "" {
				return id
			}
		}
	}
	return ""
}

func (s *Set) circleAt(at *site, method string, facts *Facts, self *rule, far reach) string {
	var way []*rule
	next := func(at *site) *rule {
		r := s.winner(s.live(nil, method, at, facts, time.Time{}))
		way = append(way, r)
		return r
	}
	first := next(at)
	if first == nil || first.Type != schemas.RuleRedirect || !circle(at, first.redirect(at), far, next) || !slices.Contains(way, self) {
		return ""
	}
	for _, r := range way {
		if r != self {
			return r.ID
		}
	}
	return self.ID
}

// methods are those that a call of both rules can have: one where any will do, and
// those that other redirects name.
func (s *Set) methods(a, b *rule) []string {
	switch {
	case a.named() && b.named() && a.Match.Method != b.Match.Method:
		return nil
	case a.named():
		return []string{a.Match.Method}
	case b.named():
		return []string{b.Match.Method}
	}
	out := []string{""} // no rule names it
	for i := range s.rules {
		if r := &s.rules[i]; r.Enabled && r.decides() && r.named() && !slices.Contains(out, r.Match.Method) {
			out = append(out, r.Match.Method)
		}
	}
	return out
}

// meet are the facts of an action that both scopes are for; false: there is none.
func meet(a, b *schemas.RuleScope) (Facts, bool) {
	var f Facts
	for _, s := range []*schemas.RuleScope{a, b} {
		if s == nil {
			continue
		}
		f = Facts{
			Kind: or(f.Kind, s.ActionKind), TaskType: or(f.TaskType, s.Agent), TaskID: or(f.TaskID, s.TaskID), ActionID: or(f.ActionID, s.RequestID),
			Principal: or(s.Agent, f.Principal),
		}
	}
	return f, misses(a, &f) == "" && misses(b, &f) == ""
}

func or[T ~string](a, b T) T {
	if a != "" {
		return a
	}
	return b
}
