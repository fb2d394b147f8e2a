package traffic

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"weir/internal/policy"
	"weir/schemas"
)

// A search for circles follows so many redirects behind a call, behind a rule that is
// written, and behind each other redirect of its set. It makes so many looks: one at the host
// of each rule, one more for 64 bytes of a path, and as many as take the same time to make the
// target of a redirect. Beyond that it finds no circle, which does no harm: only the first
// redirect is ever made.
const (
	callSteps  = 64
	ruleSteps  = schemas.MaxRules + 64
	otherSteps = 32

	callLooks = 20_000
	ruleLooks = 2_000_000
)

// search follows the redirects of a set for a method and for the facts of an action, until it
// has no looks left.
type search struct {
	set    *Set
	method string
	facts  Facts
	now    time.Time
	left   int
	way    []*rule // if kept, the redirects that were followed
	keep   bool
}

// decider is the rule that says where a call goes; nil for none.
func (x *search) decider(at *site) *rule {
	for i := range x.set.rules {
		r := &x.set.rules[i]
		if x.left--; x.left < 0 {
			return nil
		}
		if !r.decides() || !r.pattern.reaches(at) {
			continue
		}
		x.left -= len(at.tail) / 64
		if !r.fits(x.method, at) || r.idle(&x.facts, x.now) != "" {
			continue
		}
		if r.Type == schemas.RuleRedirect {
			x.left -= 16 + (len(r.Action.ToURL)+len(at.tail))/4
		}
		if !r.stays(at) {
			return r
		}
	}
	return nil
}

// circle follows the redirects behind a first one, which led from a site to a URL, and
// reports whether they come back to where they have been. It calls nothing.
func (x *search) circle(from *site, url string, steps int) bool {
	var buf [10]policy.Parts
	visited := append(buf[:0], from.Parts)
	for range steps {
		at, ok := readSite(url, false)
		if !ok {
			return false
		}
		if slices.Contains(visited, at.Parts) {
			return true
		}
		r := x.decider(&at)
		if r == nil || r.Type != schemas.RuleRedirect {
			return false
		}
		if x.keep {
			x.way = append(x.way, r)
		}
		visited = append(visited, at.Parts)
		url = r.redirect(&at)
	}
	return false
}

// Circular is the id of a redirect of the set that leads in a circle with rule r
// in it, as far as that can be seen without a call; empty: none is seen. It takes
// r for enabled, no rule for expired and the rules for active. A redirect that only
// ever leads a call to where it was going counts as one.
func (s *Set) Circular(r schemas.Rule) string {
	with, err := s.With(r)
	if err != nil || r.Type != schemas.RuleRedirect {
		return ""
	}
	self := &with.rules[slices.IndexFunc(with.rules, func(o rule) bool { return o.ID == r.ID })]
	self.Enabled = true
	if self.useless {
		return self.ID
	}
	x := &search{set: with, left: ruleLooks, keep: true}
	id := x.circleFrom(self, self, ruleSteps)
	for i := 0; i < len(with.rules) && id == "" && x.left >= 0; i++ {
		if start := &with.rules[i]; start != self && start.Type == schemas.RuleRedirect && start.Enabled {
			id = x.circleFrom(start, self, otherSteps)
		}
	}
	return id
}

// stays reports whether a redirect leads a call to where it is going: the call is
// there already, and the rule has nothing to say of it. One that does so with every
// call is a mistake, and a circle.
func (r *rule) stays(at *site) bool {
	return r.Type == schemas.RuleRedirect && !r.useless && r.returns(at)
}

func (r *rule) returns(at *site) bool {
	to, ok := readSite(r.redirect(at), false)
	return ok && to.Parts == at.Parts
}

// calls returns calls that the pattern matches, one of each scheme. Each wildcard is a text
// of its own: where the rules lead such a call, they lead the calls with other texts.
func (p *pattern) calls() (out []site) {
	for _, scheme := range []string{"https", "http"} {
		if p.scheme != "" && p.scheme != scheme {
			continue
		}
		url := scheme + "://x/x"
		if !p.every {
			n := 8100
			number := func() string { // which can be a port, too
				n++
				return strconv.Itoa(n)
			}
			url = scheme + "://" + p.host.fill(func() string { return "x" + number() })
			switch {
			case p.anyPort:
				url += ":" + number()
			case p.port != 0:
				url += ":" + strconv.Itoa(int(p.port))
			}
			url += p.path.fill(number)
		}
		if at, ok := readSite(url, false); ok {
			out = append(out, at)
		}
	}
	return out
}

// returnsAlways reports whether a redirect leads each call to where it is going, as
// far as that can be seen without one.
func (r *rule) returnsAlways() bool {
	all := r.pattern.calls()
	return len(all) > 0 && !slices.ContainsFunc(all, func(at site) bool { return !r.returns(&at) })
}

// circleFrom looks for a circle with the rule self in it, beginning at URLs that
// the rule start is for.
func (x *search) circleFrom(start, self *rule, steps int) string {
	facts, ok := meet(start.Scope, self.Scope)
	if !ok {
		return ""
	}
	x.facts = facts
	for _, x.method = range x.set.methods(start, self) {
		for _, at := range start.pattern.calls() {
			first := x.decider(&at)
			if first == nil || first.Type != schemas.RuleRedirect {
				continue
			}
			x.way = append(x.way[:0], first)
			if !x.circle(&at, first.redirect(&at), steps) || !slices.Contains(x.way, self) {
				continue
			}
			if i := slices.IndexFunc(x.way, func(r *rule) bool { return r != self }); i >= 0 {
				return x.way[i].ID
			}
			return self.ID
		}
	}
	return ""
}

// methods are those to try for a call of both rules: that of one, or else none and those that
// other redirects name. Rules of two methods share no call: a search without them has fewer looks.
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
			Kind: cmp.Or(f.Kind, s.ActionKind), TaskType: cmp.Or(f.TaskType, s.Agent), TaskID: cmp.Or(f.TaskID, s.TaskID), ActionID: cmp.Or(f.ActionID, s.RequestID),
			Principal: cmp.Or(s.Agent, f.Principal),
		}
	}
	return f, misses(a, &f) == "" && misses(b, &f) == ""
}
