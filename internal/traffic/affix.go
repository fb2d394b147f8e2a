package traffic

import "slices"

// affixes are values by text. Lengths has each length of a text once, the smallest first.
type affixes[T any] struct {
	lengths []int
	values  map[string]T
}

func (x *affixes[T]) set(text string, value T) {
	if x.values == nil {
		x.values = map[string]T{}
	}
	if i, found := slices.BinarySearch(x.lengths, len(text)); !found {
		x.lengths = slices.Insert(x.lengths, i, len(text))
	}
	x.values[text] = value
}

// globs find the values whose glob a text may match: by the text's beginning, then by its end.
type globs[T any] struct{ heads affixes[*affixes[[]T]] }

func (x *globs[T]) add(g glob, value T) {
	head, tail := g.chunks[0], g.chunks[g.stars()]
	tails := x.heads.values[head]
	if tails == nil {
		tails = &affixes[[]T]{}
		x.heads.set(head, tails)
	}
	tails.set(tail, append(tails.values[tail], value))
}

// each calls fn for the values whose glob s may match. Those under one first and one
// last chunk come in the order they were added in; if fn returns false, the others of
// these are left out. Looks counts the look-ups.
func (x *globs[T]) each(s string, looks *int, fn func(T) bool) {
	for _, n := range x.heads.lengths {
		*looks++
		if n > len(s) {
			return
		}
		tails := x.heads.values[s[:n]]
		if tails == nil {
			continue
		}
		for _, n := range tails.lengths {
			*looks++
			if n > len(s) {
				break
			}
			for _, value := range tails.values[s[len(s)-n:]] {
				*looks++
				if !fn(value) {
					break
				}
			}
		}
	}
}
