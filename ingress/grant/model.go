package grant

import (
	"slices"

	"weir/internal/models"
)

// BothModels is what two limits of models leave together: no patterns stand for all,
// and ok is false where nothing is left.
func BothModels(a, b []string) (patterns []string, ok bool) {
	switch {
	case len(a) == 0:
		return b, true
	case len(b) == 0:
		return a, true
	}
	for _, p := range a {
		if models.May(b, p) { // a pattern fits itself and those that are narrower
			patterns = append(patterns, p)
		}
	}
	for _, p := range b {
		if models.May(a, p) && !slices.Contains(patterns, p) {
			patterns = append(patterns, p)
		}
	}
	return patterns, len(patterns) > 0
}

// CoversModels reports whether whoever may use the models of some patterns may use all of
// those that something was made with. No patterns stand for all.
func CoversModels(patterns, of []string) bool {
	if len(patterns) == 0 {
		return true
	}
	return len(of) > 0 && !slices.ContainsFunc(of, func(p string) bool { return !models.May(patterns, p) })
}
