package redact

// open finds where the secret begins that b, or what is beneath depth layers already
// taken off and the rest, may end with the beginning of: from for any beginning, hold for
// one of at least so many bytes. Both are len(b) where there is none.
func (f *search) open(b []byte, depth, least int) (from, hold int) {
	from, hold = f.opening(b, &f.left[depth], least)
	if depth == layers {
		return from, hold
	}
	view, changed := f.peel(f.views[depth][:0], b)
	if !changed {
		return from, hold
	}
	f.views[depth] = view
	beneath, held := f.open(view, depth+1, least)
	return min(from, f.trace(b, view, beneath)), min(hold, f.trace(b, view, held))
}

// trace is where in b a place of its view comes from.
func (f *search) trace(b, view []byte, at int) int {
	if at >= len(view) {
		return len(b)
	}
	if list := f.origin(b, []span{{at, len(view)}}); len(list) > 0 {
		return list[0].from
	}
	return len(b)
}

// opening is open for b as the matcher reads it.
func (s *Scrubber) opening(b []byte, left *budget, least int) (from, hold int) {
	from, hold = len(b), len(b)
	for i := range b {
		if !s.near(b, i) {
			continue
		}
		n := s.reaching(b, i, left)
		if n >= 0 {
			from = min(from, i)
		}
		if n >= least || left.spent() {
			return min(from, i), i
		}
	}
	return from, hold
}

// reaching is how many bytes of a pattern b has from i to its end, at most; less than
// zero where it has none.
func (s *Scrubber) reaching(b []byte, i int, left *budget) int {
	best := s.longest(s.first[b[i]], b, i, left)
	if !escapes(b[i]) {
		return best
	}
	if unfinished(b, i) {
		best = max(best, 0)
	}
	for depth := 1; depth <= maxEscapes; depth++ {
		c, n := unescape(b, i, depth)
		if n == 0 {
			break
		}
		best = max(best, s.longest(s.first[c], b, i, left))
	}
	return best
}

func (s *Scrubber) longest(list []uint16, b []byte, i int, left *budget) int {
	best := -1
	for _, n := range list {
		best = max(best, s.patterns[n].reach(b, i, 0, left))
	}
	return best
}

// reach is match for what may go on behind b: how many bytes of the pattern b has from i,
// where it ends before the pattern does, and less than zero where it does not.
func (p *pattern) reach(b []byte, i, j int, left *budget) int {
	best := -1
	for ; j < len(p.bytes); j++ {
		if !left.take() {
			return max(best, j)
		}
		if p.b64 && j > 0 {
			i = overBreak(b, i)
		}
		if i >= len(b) {
			return max(best, j)
		}
		if escapes(b[i]) {
			if unfinished(b, i) {
				best = max(best, j)
			}
			for depth := maxEscapes; depth >= 1; depth-- {
				if c, n := unescape(b, i, depth); n > 0 && p.accepts(j, c) {
					best = max(best, p.reach(b, i+n, j+1, left))
				}
			}
		}
		if !p.accepts(j, b[i]) {
			return best
		}
		i++
	}
	return best
}

// maxUnfinished is the longest escape that may be unfinished: a reference of HTML
// whose ampersand is one of JSON's.
const maxUnfinished = 6 + maxName + 1

// unfinished reports whether b ends with what may be the beginning of an escape at i.
func unfinished(b []byte, i int) bool {
	rest := b[i+1:]
	if len(rest) >= maxUnfinished {
		return false
	}
	if b[i] == '\\' && len(rest) > 0 && rest[0] != 'u' && rest[0] != '\\' {
		return false
	}
	for _, c := range rest {
		if !isAlnum(c) && c != '#' && c != '\\' {
			return false
		}
	}
	return true
}
