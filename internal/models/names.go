package models

import (
	"iter"
	"slices"
	"strings"
)

// Names finds the configured name that a requested model matches. It is immutable; the zero Names
// is empty.
type Names struct {
	exact    map[string]struct{}
	patterns []string // the longest first
}

// NewNames takes exact names and patterns.
func NewNames(all iter.Seq[string]) Names {
	n := Names{exact: map[string]struct{}{}}
	for name := range all {
		if isPattern(name) {
			n.patterns = append(n.patterns, name)
		} else {
			n.exact[name] = struct{}{}
		}
	}
	slices.SortFunc(n.patterns, func(a, b string) int { return len(b) - len(a) })
	return n
}

// Match is the name itself where it is there, or else the longest pattern that fits it.
func (n Names) Match(asked string) (name string, ok bool) {
	if _, ok := n.exact[asked]; ok {
		return asked, true
	}
	for _, p := range n.patterns {
		if fits(p, asked) {
			return p, true
		}
	}
	return "", false
}

// May reports whether one of a token's patterns matches a name. An empty list matches every name. A
// pattern is an exact name, the beginning of names followed by *, or *.
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

func isPattern(name string) bool { return strings.HasSuffix(name, "*") }
