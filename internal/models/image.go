package models

import (
	"cmp"

	"weir/schemas"
)

// What an image counts for a model of whose images the configuration says nothing.
const (
	// mostImage is for what is held. Providers part an image in tiles or patches and bound
	// their number; the most that is published is 48169 tokens, of an image of eight tiles
	// for gpt-4o-mini.
	mostImage = 49_152
	// usualImage is for what is charged where a provider does not tell: more than nearly
	// every model counts for an image of a usual size.
	usualImage = 2048
)

// Image is how many tokens of a prompt one image is for a model: at most, and where
// nobody has told what was used. A nil model is one of which nothing is known.
func Image(m *schemas.Model) (most, usual int64) {
	said := int64(0)
	if m != nil {
		said = m.ImageTokens
	}
	return cmp.Or(said, mostImage), cmp.Or(said, usualImage)
}

// Times multiplies counts that are not below zero; too much is the most there is.
func Times(a, b int64) int64 {
	var t tally
	t.add(a, b)
	return t.whole()
}
