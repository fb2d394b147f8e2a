package traffic

import (
	"cmp"
	"slices"
	"strconv"
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
func callReach() reach  { return reach{64, 4} }
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

// How much is looked at in search of circles: behind a call, and for a rule that is
// written. Beyond it none is seen.
const (
	callLooks = 10_000
	ruleLooks = 200_000
)

// search asks a set where calls go, until it has looked at so much.
type search struct {
	set         *Set
	looks, most int
}

func (x *search) spent() bool { return x.looks > x.most }

// decider is the rule that says where a call goes; nil for none, and where the
// search is spent.
func (x *search) decider(method string, at *site, f *Facts, now time.Time) *rule {
	if x.spent() {
		return nil
	}
	best := len(x.set.rules)
	x.set.near(at, &x.looks, func(rank int32) bool {
		if int(rank) > best || x.spent() {
			return false // and the next ones have lower precedence
		}
		if r := &x.set.rules[rank]; r.decides() && r.fits(method, at) && r.idle(f, now) == "" && !x.stays(r, at) {
			best = int(rank)
			return false
		}
		return true
	})
	if best == len(x.set.rules) || x.spent() {
		return nil
	}
	return &x.set.rules[best]
}

// stays counts what it takes to make the target and to read it: as much as a look
// for each so many bytes.
func (x *search) stays(r *rule, at *site) bool {
	if r.Type == schemas.RuleRedirect {
		x.looks += 1 + (len(r.Action.ToURL)+len(at.tail))/32
	}
	return r.stays(at)
}

// Circular is the id of a redirect of the set that leads in a circle with rule r
// in it, as far as that can be seen without a call; empty: none is seen. It takes
// r for enabled, no rule for expired and the rules for active. A redirect that only
// ever leads a call to where it was going counts as one.
func (s *Set) Circular(r schemas.Rule) string {
	id, _ := s.circular(r)
	return id
}

// circular counts as well what it has looked at.
func (s *Set) circular(r schemas.Rule) (id string, looks int) {
	with, err := s.With(r)
	if err != nil || r.Type != schemas.RuleRedirect {
		return "", 0
	}
	self := &with.rules[slices.IndexFunc(with.rules, func(o rule) bool { return o.ID == r.ID })]
	self.Enabled = true
	if self.useless {
		return self.ID, 0
	}
	x := &search{set: with, most: ruleLooks}
	id = x.circleFrom(self, self, ruleReach())
	for i := range with.rules {
		start := &with.rules[i]
		if id != "" || x.spent() {
			break
		}
		if start != self && start.Type == schemas.RuleRedirect && start.Enabled {
			id = x.circleFrom(start, self, otherReach())
		}
	}
	return id, x.looks
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
	for i := range all {
		if !r.returns(&all[i]) {
			return false
		}
	}
	return len(all) > 0
}

// circleFrom looks for a circle with the rule self in it, beginning at URLs that
// the rule start is for.
func (x *search) circleFrom(start, self *rule, far reach) string {
	facts, ok := meet(start.Scope, self.Scope)
	if !ok {
		return ""
	}
	for _, method := range x.set.methods(start, self) {
		for _, at := range start.pattern.calls() {
			if id := x.circleAt(&at, method, &facts, self, far); id != "" {
				return id
			}
		}
	}
	return ""
}

func (x *search) circleAt(at *site, method string, facts *Facts, self *rule, far reach) string {
	var way []*rule
	next := func(at *site) *rule {
		r := x.decider(method, at, facts, time.Time{})
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
			Kind: cmp.Or(f.Kind, s.ActionKind), TaskType: cmp.Or(f.TaskType, s.Agent), TaskID: cmp.Or(f.TaskID, s.TaskID), ActionID: cmp.Or(f.ActionID, s.RequestID),
			Principal: cmp.Or(s.Agent, f.Principal),
		}
	}
	return f, misses(a, &f) == "" && misses(b, &f) == ""
}
