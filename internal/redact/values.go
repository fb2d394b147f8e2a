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
// ASCII, in UTF-16, and any mixture of the escapes. It is immutable and safe for
// concurrent use; a nil Scrubber takes out nothing.
//
// It makes one pass. Its cost a byte is a table look-up, and a closer look
// where a form of a secret may begin; nothing is allocated until one is found.
type Scrubber struct {
	patterns []pattern
	// first lists, for each byte, the patterns that may begin with it.
	first [256][]uint16
	// start marks the bytes worth a closer look.
	start [256]bool
}

// Values returns a Scrubber for secrets. White space around a secret, which a
// file or a header may have added or lost, is not part of it. Secrets that are
// empty or shorter than MinSecret are left out.
func Values(secrets []string) *Scrubber {
	s := &Scrubber{}
	for _, secret := range unique(secrets) {
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

func (s *Scrubber) add(p pattern) {
	n := uint16(len(s.patterns)) //nolint:gosec // a few for each secret of one entry
	s.patterns = append(s.patterns, p)
	for c := range 256 {
		if p.accepts(0, byte(c)) {
			s.first[c] = append(s.first[c], n)
			s.start[c] = true
		}
	}
}

// Bytes returns b without the secrets: b itself where there are none.
func (s *Scrubber) Bytes(b []byte) []byte {
	if s == nil || len(s.patterns) == 0 {
		return b
	}
	var out []byte
	kept := 0 // what stands before it is in out
	for i := 0; i < len(b); {
		from, to := s.next(b, i)
		if to < 0 {
			break
		}
		from = max(from, kept)
		if out == nil {
			out = make([]byte, 0, len(b))
		}
		out = append(append(out, b[kept:from]...), Mark...)
		kept, i = to, to
	}
	if out == nil {
		return b
	}
	return append(out, b[kept:]...)
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
func (s *Scrubber) next(b []byte, i int) (from, to int) {
	to = -1
	for ; i < len(b); i++ {
		if to >= 0 && i >= to {
			return from, to
		}
		if !s.start[b[i]] {
			continue
		}
		head, end := s.at(b, i)
		switch {
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
func (s *Scrubber) at(b []byte, i int) (from, to int) {
	from, to = s.among(s.first[b[i]], b, i)
	if !escapes(b[i]) {
		return from, to
	}
	for depth := 1; depth <= maxEscapes; depth++ {
		c, n := unescape(b, i, depth)
		if n == 0 {
			break
		}
		if head, end := s.among(s.first[c], b, i); end >= 0 && (to < 0 || end > to) {
			from, to = head, end
		}
	}
	return from, to
}

// among finds the longest of some patterns at i, with its neighbours.
func (s *Scrubber) among(list []uint16, b []byte, i int) (from, to int) {
	from, to = i, -1
	for _, n := range list {
		p := &s.patterns[n]
		end := p.match(b, i, 0)
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

// match gives the end of the pattern from its jth byte on, where b has it at i,
// else -1. At each place an escape is read as what it stands for, at every
// depth, and then as itself.
func (p *pattern) match(b []byte, i, j int) int {
	for ; j < len(p.bytes); j++ {
		if p.b64 && j > 0 {
			i = overBreak(b, i)
		}
		if i >= len(b) {
			return -1
		}
		if escapes(b[i]) {
			if end := p.matchEscaped(b, i, j); end >= 0 {
				return end
			}
		}
		if !p.accepts(j, b[i]) {
			return -1
		}
		i++
	}
	return i
}

// matchEscaped tries the deepest escape first: of several readings, the one that
// takes most is taken out.
func (p *pattern) matchEscaped(b []byte, i, j int) int {
	for depth := maxEscapes; depth >= 1; depth-- {
		c, n := unescape(b, i, depth)
		if n == 0 || !p.accepts(j, c) {
			continue
		}
		if end := p.match(b, i+n, j+1); end >= 0 {
			return end
		}
	}
	return -1
}

// overBreak steps over one line break, plain or escaped, such as long base64 has.
func overBreak(b []byte, i int) int {
	for _, want := range [...]byte{'\r', '\n'} {
		if i >= len(b) {
			break
		}
		if b[i] == want {
			i++
		} else if c, n := unescape(b, i, 1); n > 0 && c == want {
			i += n
		}
	}
	return i
}
