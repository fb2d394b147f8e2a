package redact

import (
	"bytes"
	"slices"
	"strings"
)

// MinSecret is the shortest secret, in bytes, that is taken out by value. A
// shorter one would blot out ordinary text, and by its blots show what it is.
const MinSecret = 4

// Scrubber takes secrets out of text by value. It finds them plain (in any
// letter case), percent-encoded (path and form style, also twice), JSON- and
// HTML-escaped, in base64 (both alphabets, at each of the three alignments, also
// inside a longer encoding, also broken into lines), in hex and, where they are
// ASCII, in UTF-16, and any mixture of the escapes. Where a text has escapes it
// looks at what is beneath them as well, up to three layers deep: a target that
// quotes a text in which another quoted the secret has escaped its escapes. It is
// immutable and safe for concurrent use; a nil Scrubber takes out nothing.
//
// It makes one pass over the text, and one over each layer beneath it. The cost a
// byte is a table look-up, and a closer look where two bytes are those that a form of a
// secret may begin with; beside the layers, nothing is allocated until a secret is found.
// A text can be made whose closer looks would never end, by whoever knows a
// secret that suits: its steps are counted, and once there are far more than any
// ordinary text takes, whatever could still begin a secret is taken out with all
// that stands behind it.
type Scrubber struct {
	patterns []pattern
	// first lists, for each byte, the patterns that may begin with it.
	first [256][]uint16
	// start marks the bytes worth a look at the next one, and pairs, by the first, those
	// that are worth a closer look with it. A text of the letters that secrets begin with
	// would cost all patterns a byte without them.
	start [256]bool
	pairs [256][4]uint64
}

// Values returns a Scrubber for secrets. White space around a secret, which a
// file or a header may have added or lost, is not part of it. Secrets that are
// empty or shorter than MinSecret are left out.
func Values(secrets []string) *Scrubber {
	s := &Scrubber{}
	for _, secret := range beneath(unique(secrets)) {
		if len(secret) < MinSecret {
			continue
		}
		for _, p := range patterns(secret) {
			s.add(p)
		}
	}
	if len(s.patterns) > 0 {
		s.start['%'], s.start['\\'], s.start['&'] = true, true, true
	}
	return s
}

func unique(secrets []string) []string {
	var out []string
	for _, secret := range secrets {
		if secret = strings.TrimSpace(secret); secret != "" && !slices.Contains(out, secret) {
			out = append(out, secret)
		}
	}
	return out
}

// beneath adds to secrets what is left of each when layers are taken off a text
// that holds it: some have in them what reads as an escape, and which of those
// are undone depends on what else the text was put through.
func beneath(secrets []string) []string {
	kinds := [...]peeler{{}, {only: '%'}, {only: '\\'}, {only: '&'}}
	list, from := slices.Clone(secrets), 0
	for range layers {
		last := list[from:]
		from = len(list)
		for _, secret := range last {
			for i := range kinds {
				if view, changed := kinds[i].peel(nil, []byte(secret)); changed && !slices.Contains(list, string(view)) {
					list = append(list, string(view))
				}
			}
		}
	}
	return list
}

func (s *Scrubber) add(p pattern) {
	n := uint16(len(s.patterns)) //nolint:gosec // a few for each secret of one entry
	s.patterns = append(s.patterns, p)
	for c := range 256 {
		if p.accepts(0, byte(c)) {
			s.first[c] = append(s.first[c], n)
			s.start[c] = true
			s.pair(p, byte(c))
		}
	}
}

// pair marks what may stand behind the first byte of a pattern: its second, any escape,
// and in base64 a line break.
func (s *Scrubber) pair(p pattern, first byte) {
	set := &s.pairs[first]
	for c := range 256 {
		second := byte(c)
		if len(p.bytes) < 2 || p.accepts(1, second) || escapes(second) || p.b64 && (second == '\r' || second == '\n') {
			set[second>>6] |= 1 << (second & 63)
		}
	}
}

// near reports whether a closer look at i is worth it: whether a form of a secret may
// begin there, or go on behind the end of b.
func (s *Scrubber) near(b []byte, i int) bool {
	c := b[i]
	if !s.start[c] {
		return false
	}
	if i+1 >= len(b) || escapes(c) {
		return true
	}
	next := b[i+1]
	return s.pairs[c][next>>6]>>(next&63)&1 != 0
}

// Bytes returns b without the secrets: b itself where there are none.
func (s *Scrubber) Bytes(b []byte) []byte {
	if s == nil || len(s.patterns) == 0 {
		return b
	}
	return s.search(len(b)).scrub(b)
}

// String is Bytes for strings.
func (s *Scrubber) String(text string) string {
	if s == nil || len(s.patterns) == 0 {
		return text
	}
	b := []byte(text)
	scrubbed := s.Bytes(b)
	if len(scrubbed) == len(b) && bytes.Equal(scrubbed, b) {
		return text
	}
	return string(scrubbed)
}

// next finds the first secret at or behind i, together with every other that
// overlaps it. Without one, to is negative.
func (s *Scrubber) next(b []byte, i int, left *budget) (from, to int) {
	to = -1
	for ; i < len(b); i++ {
		if to >= 0 && i >= to {
			return from, to
		}
		if !s.near(b, i) {
			continue
		}
		head, end := s.at(b, i, left)
		switch {
		case left.spent():
			if head = max(i-1, 0); to >= 0 { // base64 may begin in the byte before
				head = min(from, head)
			}
			return head, len(b)
		case end < 0:
		case to < 0:
			from, to = head, end
		default:
			from, to = min(from, head), max(to, end)
		}
	}
	return from, to
}

// at finds the longest secret that begins at i.
func (s *Scrubber) at(b []byte, i int, left *budget) (from, to int) {
	from, to = s.among(s.first[b[i]], b, i, left)
	if !escapes(b[i]) {
		return from, to
	}
	for depth := 1; depth <= maxEscapes; depth++ {
		c, n := unescape(b, i, depth)
		if n == 0 {
			break
		}
		if head, end := s.among(s.first[c], b, i, left); end >= 0 && (to < 0 || end > to) {
			from, to = head, end
		}
	}
	return from, to
}

// among finds the longest of some patterns at i, with its neighbours.
func (s *Scrubber) among(list []uint16, b []byte, i int, left *budget) (from, to int) {
	from, to = i, -1
	for _, n := range list {
		p := &s.patterns[n]
		end := p.match(b, i, 0, left)
		if end < 0 {
			continue
		}
		if p.head != nil && i > 0 && p.head(b[i-1]) {
			from = i - 1
		}
		if p.tail != nil && end < len(b) && p.tail(b[end]) {
			end++
		}
		to = max(to, end)
	}
	return from, to
}
