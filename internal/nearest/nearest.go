// Package nearest finds the name that a mistyped word was probably meant to be. The configuration,
// the HTTP API and the commands share it, so that all of them suggest alike.
package nearest

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Name returns the name that one or two mistyped letters turn into word, whatever their case, or an empty text.
func Name(word string, names []string) string {
	best, distance := "", 3
	word = strings.ToLower(word[:min(len(word), 64)])
	for _, name := range slices.Sorted(slices.Values(names)) {
		if d := levenshtein.ComputeDistance(word, strings.ToLower(name)); d < min(distance, len(name)) {
			best, distance = name, d
		}
	}
	return best
}

// Hint asks after an error whether the nearest name was meant: "; did you mean ls?". Without one
// it is empty.
func Hint(word string, names []string) string {
	if name := Name(word, names); name != "" {
		return "; did you mean " + name + "?"
	}
	return ""
}
