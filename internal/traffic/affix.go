package traffic

import (
	"slices"
	"sort"
)

// chain finds among texts those that another text begins with, or ends with. Inner
// is the longest other text that one begins (or ends) with, -1 for none: whatever
// texts a text begins with lie one inside the other.
type chain[T any] struct {
	ends   bool
	texts  []string // in order, from the end where ends is set
	inner  []int
	values []T
}

func newChain[T any](values map[string]T, ends bool) *chain[T] {
	c := &chain[T]{ends: ends}
	for text := range values {
		c.texts = append(c.texts, text)
	}
	slices.SortFunc(c.texts, c.compare)
	for i, text := range c.texts {
		c.values = append(c.values, values[text])
		inner := i - 1 // the text is on the chain of the one before
		for inner >= 0 && c.common(text, c.texts[inner]) < len(c.texts[inner]) {
			inner = c.inner[inner]
		}
		c.inner = append(c.inner, inner)
	}
	return c
}

// last is the longest of the texts that s begins with, -1 for none; the others are
// its inner ones.
func (c *chain[T]) last(s string) int {
	i := sort.Search(len(c.texts), func(i int) bool { return c.compare(c.texts[i], s) > 0 }) - 1
	if i < 0 {
		return -1
	}
	for common := c.common(c.texts[i], s); i >= 0 && len(c.texts[i]) > common; {
		i = c.inner[i]
	}
	return i
}

// common counts the bytes that both begin with.
func (c *chain[T]) common(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if c.ends && a[len(a)-1-i] != b[len(b)-1-i] || !c.ends && a[i] != b[i] {
			return i
		}
	}
	return n
}

func (c *chain[T]) compare(a, b string) int {
	i := c.common(a, b)
	switch {
	case i == len(a) || i == len(b):
		return len(a) - len(b)
	case c.ends:
		return int(a[len(a)-1-i]) - int(b[len(b)-1-i])
	default:
		return int(a[i]) - int(b[i])
	}
}

// affixes find the globs that a text may match: by what it begins with, then by
// what it ends with.
type affixes[T any] struct{ *chain[*chain[[]T]] }

// affixBuilder gathers values under the first and the last chunk of their globs.
type affixBuilder[T any] map[string]map[string][]T

func (b affixBuilder[T]) add(g glob, value T) {
	head, tail := g.chunks[0], g.chunks[g.stars()]
	if b[head] == nil {
		b[head] = map[string][]T{}
	}
	b[head][tail] = append(b[head][tail], value)
}

func (b affixBuilder[T]) build() affixes[T] {
	heads := make(map[string]*chain[[]T], len(b))
	for head, tails := range b {
		heads[head] = newChain(tails, true)
	}
	return affixes[T]{newChain(heads, false)}
}

// each calls fn for the values whose glob s may match. Those under one first and one
// last chunk come in the order they were added in; where fn is false, the others of
// these are left out. Looks counts what is looked at.
func (x affixes[T]) each(s string, looks *int, fn func(T) bool) {
	for i := x.last(s); i >= 0; i = x.inner[i] {
		*looks++
		tails := x.values[i]
		for j := tails.last(s); j >= 0; j = tails.inner[j] {
			for _, value := range tails.values[j] {
				*looks++
				if !fn(value) {
					break
				}
			}
		}
	}
}
