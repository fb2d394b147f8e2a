package redact

import (
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
// looks at what is beneath them as well, up to five layers deep: a target that
// quotes a text in which another quoted the secret has escaped its escapes. It is
// immutable and safe for concurrent use; a nil Scrubber takes out nothing.
//
// It makes one pass over the text, and one over each layer beneath it. The cost a
// byte is a table look-up, and a closer look where two bytes are those that a form of a
// secret may begin with; beside the layers, nothing is allocated until a secret is found.
// A hostile text can need closer looks without end, if its author knows a suitable
// secret. The Scrubber counts its steps: beyond the limit, far more than ordinary
// text takes, it takes out the next possible beginning of a secret and all text
// after it.
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

// pair marks the possible second bytes after the first of a pattern: its own second,
// any escape, and in base64 a line break.
func (s *Scrubber) pair(p pattern, first byte) {
	set := &s.pairs[first]
	for c := range 256 {
		second := byte(c)
		if len(p.bytes) < 2 || p.accepts(1, second) || escapes(second) || p.b64 && (second == '\r' || second == '\n') {
			set[second>>6] |= 1 << (second & 63)
		}
	}
}

// near reports whether i needs a closer check: whether a form of a secret may begin there, or
// continue after the end of b.
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

// candidate returns the first place at or after i that is worth a closer look.
func (s *Scrubber) candidate(b []byte, i int) int {
	for i < len(b) && !s.near(b, i) {
		i++
	}
	return i
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
	if out := s.Bytes([]byte(text)); string(out) != text {
		return string(out)
	}
	return text
}

// at returns the longest secret that begins at i, with its neighbours; to is -1
// if there is none. Open is the number of bytes of a secret that b may end with
// from i on; -1 for none.
func (s *Scrubber) at(b []byte, i int, left *budget) (from, to, open int) {
	from, to, open = s.among(s.first[b[i]], b, i, left)
	if !escapes(b[i]) {
		return from, to, open
	}
	if len(b)-i <= maxUnfinished && unfinished(b, i) { // it is called for every escape
		open = max(open, 0)
	}
	if c, n := unescape(b, i); n > 0 && len(s.first[c]) > 0 {
		head, end, more := s.among(s.first[c], b, i, left)
		from, to, open = min(from, head), max(to, end), max(open, more)
	}
	return from, to, open
}

func (s *Scrubber) among(list []uint16, b []byte, i int, left *budget) (from, to, open int) {
	from, to, open = i, -1, -1
	for _, n := range list {
		p := &s.patterns[n]
		end, more := p.match(b, i, 0, left)
		open = max(open, more)
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
	return from, to, open
}
