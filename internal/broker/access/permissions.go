package access

import (
	"slices"
	"strings"
)

// Rule is one thing that a user may do, and what for.
type Rule struct {
	Why      string
	Subjects []string
}

// Permissions are all that a user may do.
type Permissions struct {
	Publish, Subscribe []Rule
	// Replies lets the user answer each request that it has received, once.
	Replies bool
}

// Subjects are those of all rules, each once, in order.
func Subjects(rules []Rule) []string {
	var all []string
	for _, r := range rules {
		all = append(all, r.Subjects...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// CoveredBy reports whether one of the patterns covers the whole of a subject, which may be a
// pattern too.
func CoveredBy(subject string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return covers(p, subject) })
}

// covers reports whether everything that inner matches is matched by outer.
func covers(outer, inner string) bool {
	o, in := strings.Split(outer, "."), strings.Split(inner, ".")
	for i, token := range o {
		switch {
		case token == ">":
			return len(in) > i
		case i >= len(in) || in[i] == ">":
			return false
		case token != "*" && token != in[i]:
			return false
		}
	}
	return len(o) == len(in)
}

// Family is the listed pattern that a subject belongs to, whoever it is listed for: it names what
// was done without saying to whom. A subject that is listed nowhere is "other".
func Family(subject string, partitions int) string {
	for _, r := range Roles() {
		p := Of(r, partitions)
		for _, rules := range [][]Rule{p.Publish, p.Subscribe} {
			for _, s := range Subjects(rules) {
				if covers(s, subject) {
					return s
				}
			}
		}
	}
	return "other"
}
