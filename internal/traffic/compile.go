package traffic

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/schemas"
)

// rule is one rule, ready to be asked.
type rule struct {
	schemas.Rule

	pattern pattern
	target  template // of a redirect
	answer  *Answer  // of a mock
	useless bool     // a redirect that ReturnsAlways
}

// Compile makes a Set of what is stored under an etag. A rule that Read would
// refuse is an error, whatever its expires_at, and so is an id that stands twice:
// calls must not go out as if a rule were not there. The set is read here and
// not kept an eye on: it must not be changed afterwards.
func Compile(doc schemas.RuleSet, etag string) (*Set, error) {
	s := &Set{etag: etag, doc: doc, rules: make([]rule, 0, len(doc.Rules))}
	ids := make(map[string]bool, len(doc.Rules))
	for i := range doc.Rules {
		r, err := prepare(&doc.Rules[i])
		if err == nil && ids[r.ID] {
			err = &Invalid{Pointer: "/id", Message: "appears twice in the set"}
		}
		if err != nil {
			return nil, fmt.Errorf("rule %d of the set: %w", i, err)
		}
		ids[r.ID] = true
		s.expires = s.expires || !r.ExpiresAt.IsZero()
		s.rules = append(s.rules, r)
	}
	slices.SortFunc(s.rules, precedence)
	return s, nil
}

// With is the set with one more rule, or with one in the place of the rule with its
// id. Its errors are those of Compile.
func (s *Set) With(r schemas.Rule) (*Set, error) {
	doc := schemas.RuleSet{GlobalActive: true}
	if s != nil {
		doc = s.doc
	}
	doc.Rules = slices.Clone(doc.Rules)
	if i := slices.IndexFunc(doc.Rules, func(o schemas.Rule) bool { return o.ID == r.ID }); i >= 0 {
		doc.Rules[i] = r
	} else {
		doc.Rules = append(doc.Rules, r)
	}
	return Compile(doc, s.Etag())
}

// As is the same set under another etag: a writer compiles a set before the
// store has numbered it.
func (s *Set) As(etag string) *Set {
	again := *s
	again.etag = etag
	return &again
}

// prepare checks a rule and parses what it consists of.
func prepare(r *schemas.Rule) (rule, error) {
	if err := check(r); err != nil {
		return rule{}, err
	}
	out := rule{Rule: *r}
	var err error
	if out.pattern, err = parsePattern(r.Match.URLPattern, r.Match.IncludeQuery); err != nil {
		return rule{}, err
	}
	switch r.Type {
	case schemas.RuleRedirect:
		if out.target, err = parseTemplate(r.Action.ToURL, &out.pattern); err != nil {
			return rule{}, err
		}
		out.useless = ReturnsAlways(*r)
	case schemas.RuleMock:
		out.answer = answer(&r.Action)
	}
	return out, nil
}

// precedence orders rules: the greater priority, then the more specific, then the
// smaller id.
func precedence(a, b rule) int {
	return cmp.Or(
		cmp.Compare(b.Priority, a.Priority),
		cmp.Compare(b.narrowness(), a.narrowness()),
		cmp.Compare(b.pattern.literal, a.pattern.literal),
		strings.Compare(a.ID, b.ID),
	)
}

// narrowness counts the members of the scope as two, and a named method as one.
func (r *rule) narrowness() (n int) {
	if r.named() {
		n = 1
	}
	if s := r.Scope; s != nil {
		for _, member := range []string{string(s.ActionKind), s.Agent, s.TaskID, s.RequestID} {
			n += 2 * min(len(member), 1)
		}
	}
	return n
}

func (r *rule) named() bool { return r.Match.Method != AnyMethod }

// fits reports whether the pattern and the method match a call.
func (r *rule) fits(method string, at *site) bool {
	return (r.Match.Method == method || r.Match.Method == AnyMethod) && r.pattern.fits(at)
}

// decides reports whether the rule says where a call goes.
func (r *rule) decides() bool { return r.Type == schemas.RuleRedirect || r.Type == schemas.RuleMock }

// idle says why the rule has no effect on the calls that it fits; empty: it has one.
func (r *rule) idle(f *Facts, now time.Time) string {
	switch {
	case !r.Enabled:
		return "the rule is disabled"
	case !r.ExpiresAt.IsZero() && !now.Before(r.ExpiresAt):
		return "the rule has expired"
	default:
		return misses(r.Scope, f)
	}
}

// misses says which member of a scope does not hold; empty: all do.
func misses(s *schemas.RuleScope, f *Facts) string {
	switch {
	case s == nil:
		return ""
	case s.ActionKind != "" && s.ActionKind != f.Kind:
		return "the rule's scope is another action_kind"
	case s.Agent != "" && s.Agent != f.TaskType && s.Agent != f.Principal:
		return "the rule's scope is another agent"
	case s.TaskID != "" && s.TaskID != f.TaskID:
		return "the rule's scope is another task_id"
	case s.RequestID != "" && s.RequestID != f.ActionID:
		return "the rule's scope is another request_id"
	default:
		return ""
	}
}

// ReturnsAlways reports whether a redirect leads each call to where it is going. Its calls are denied.
func ReturnsAlways(r schemas.Rule) bool {
	same := r.Match.URLPattern
	for i := range strings.Count(same, "*") {
		same = strings.Replace(same, "*", "$"+strconv.Itoa(i+1), 1)
	}
	return same == r.Action.ToURL
}

// stays reports whether a redirect leads this call, but not each, to where it is going: the rule has no
// effect on it.
func (r *rule) stays(at *site) bool {
	if r.Type != schemas.RuleRedirect || r.useless {
		return false
	}
	to, ok := readSite(r.redirect(at), false)
	return ok && to.Parts == at.Parts
}

// redirect is where the rule sends a call that it fits.
func (r *rule) redirect(at *site) string {
	query := ""
	if at.HasQuery && !r.pattern.query && !r.target.hasQuery {
		query = at.Target[len(at.Path):]
	}
	if len(r.target.refs) == 0 {
		return r.target.fill(nil, query)
	}
	var buf [schemas.MaxRuleWildcards]string
	return r.target.fill(r.pattern.capture(buf[:0], at), query)
}
