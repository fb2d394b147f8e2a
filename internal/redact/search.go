package redact

import (
	"cmp"
	"slices"
)

// layers is how many layers of escapes are taken off a text to look beneath
// them. The matcher reads one more in what is left.
const layers = 5

// span is b[from:to].
type span struct{ from, to int }

// search scans one text, or its parts. Its budgets, one for each view, apply to all parts together.
// The views of a part overwrite the views of the part before.
type search struct {
	*Scrubber
	peeler

	left  [layers + 1]budget
	views [layers][]byte
	least int // see tail; 0 if the tail does not matter
}

func (s *Scrubber) search(size int) *search {
	f := &search{Scrubber: s}
	for i := range f.left {
		f.left[i] = s.budget(size)
	}
	return f
}

// scrub returns b without the secrets: b itself if it has none.
func (f *search) scrub(b []byte) []byte {
	spans, _ := f.find(b, 0)
	if len(spans) == 0 {
		return b
	}
	out, _ := replace(b, 0, len(b), spans, 0)
	return out
}

// tail is where a text may end with the beginning of a secret: from for any
// beginning, hold for one of at least search.least bytes. Both are the length of
// the text if there is none.
type tail struct{ from, hold int }

// find returns the secrets in b, and in the views under depth layers already
// taken off and, one by one, the rest: in order, without overlaps. It traces a
// view back only if it finds a secret there.
func (f *search) find(b []byte, depth int) ([]span, tail) {
	spans, end := f.matches(b, f.least, &f.left[depth])
	if depth == layers {
		return spans, end
	}
	view, changed := f.peel(f.views[depth][:0], b)
	if !changed {
		return spans, end
	}
	f.views[depth] = view
	beneath, below := f.find(view, depth+1)
	if len(beneath) > 0 {
		spans = join(append(spans, f.origin(b, beneath)...))
	}
	if f.least > 0 {
		end = tail{min(end.from, f.trace(b, view, below.from)), min(end.hold, f.trace(b, view, below.hold))}
	}
	return spans, end
}

// trace returns the origin in b of a place in its view.
func (f *search) trace(b, view []byte, at int) int {
	if at < len(view) {
		if list := f.origin(b, []span{{at, len(view)}}); len(list) > 0 {
			return list[0].from
		}
	}
	return len(b)
}

// matches returns the secrets in b as the matcher reads it, and its tail.
func (s *Scrubber) matches(b []byte, least int, left *budget) (spans []span, end tail) {
	end = tail{len(b), len(b)}
	last := span{to: -1}
	for i := s.candidate(b, 0); i < len(b); i = s.candidate(b, i+1) {
		from, to, open := s.at(b, i, left)
		if open >= 0 || left.spent() {
			end.from = min(end.from, i)
		}
		if open >= least || left.spent() {
			end.hold = min(end.hold, i)
		}
		if left.spent() { // base64 may begin in the byte before
			from, to = max(i-1, 0), len(b)
		}
		switch {
		case to < 0:
		case i < last.to:
			last.to = max(last.to, to)
			spans[len(spans)-1] = last
		default:
			last = span{max(from, last.to), to}
			spans = append(spans, last)
		}
		if left.spent() {
			break
		}
	}
	return spans, end
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
