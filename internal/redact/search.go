package redact

import (
	"cmp"
	"slices"
)

// layers is how many layers of escapes are taken off a text to look beneath
// them. The matcher reads one more in what is left.
const layers = 3

// span is b[from:to].
type span struct{ from, to int }

// search looks through one text, or the parts of one: its budgets, one for each
// view, are for all of it together. The views of a part go where those of the
// part before were.
type search struct {
	*Scrubber
	peeler

	left  [layers + 1]budget
	views [layers][]byte
}

func (s *Scrubber) search(size int) *search {
	f := &search{Scrubber: s}
	for i := range f.left {
		f.left[i] = s.budget(size)
	}
	return f
}

// scrub returns b without the secrets: b itself where there are none.
func (f *search) scrub(b []byte) []byte {
	spans := f.find(b, 0)
	if len(spans) == 0 {
		return b
	}
	out := make([]byte, 0, len(b))
	kept := 0 // what stands before it is in out
	for _, s := range spans {
		out = append(append(out, b[kept:s.from]...), Mark...)
		kept = s.to
	}
	return append(out, b[kept:]...)
}

// find gives the secrets in b and in what is beneath depth layers already taken
// off, and one by one the rest: in order, none overlapping another. What lies
// beneath is traced back only where a secret was found there.
func (f *search) find(b []byte, depth int) []span {
	spans := f.matches(b, &f.left[depth])
	if depth == layers {
		return spans
	}
	view, changed := f.peel(f.views[depth][:0], b)
	if !changed {
		return spans
	}
	f.views[depth] = view
	if beneath := f.find(view, depth+1); len(beneath) > 0 {
		return join(append(spans, f.origin(b, beneath)...))
	}
	return spans
}

// matches are the secrets in b as the matcher reads it.
func (s *Scrubber) matches(b []byte, left *budget) []span {
	var spans []span
	for i := 0; i < len(b); {
		from, to := s.next(b, i, left)
		if to < 0 {
			break
		}
		spans = append(spans, span{max(from, i), to})
		i = to
	}
	return spans
}

// join sorts spans and makes one of those that overlap. Side by side they stay apart.
func join(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	joined := spans[:1]
	for _, s := range spans[1:] {
		if last := &joined[len(joined)-1]; s.from < last.to {
			last.to = max(last.to, s.to)
		} else {
			joined = append(joined, s)
		}
	}
	return joined
}
