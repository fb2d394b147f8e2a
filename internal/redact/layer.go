package redact

import (
	"bytes"
	"html"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// peeler takes layers of escapes off: of all kinds, or of only those that begin
// with one byte. It remembers what HTML's names stand for, as a text has few of
// them and often.
type peeler struct {
	only  byte
	more  bool // the text may go on, and with it a reference without a semicolon
	names map[string]string
}

// peel appends b to view with one layer of every escape undone, of all kinds.
// Incomplete escapes stay. It reports whether there was an escape; if not, it
// returns view unchanged.
func (p *peeler) peel(view, b []byte) ([]byte, bool) {
	var room [maxUndone]byte
	kept, changed := 0, false
	for i := firstEscape(b); i < len(b); {
		if !escapes(b[i]) {
			i++
			continue
		}
		c, n := p.undo(room[:0], b, i)
		if n == 0 {
			i++
			continue
		}
		if !changed {
			view, changed = slices.Grow(view, len(b)), true
		}
		view = append(append(view, b[kept:i]...), c...)
		i += n
		kept = i
	}
	if !changed {
		return view, false
	}
	return append(view, b[kept:]...), true
}

// firstEscape is where the first escape may be; len(b) where there is none.
func firstEscape(b []byte) int {
	for _, c := range [...]byte{'%', '\\', '&'} {
		if i := bytes.IndexByte(b, c); i >= 0 {
			b = b[:i]
		}
	}
	return len(b)
}

// origin is where the spans of a view come from in the b it was peeled from:
// whole escapes, even of those that a span has only a part of.
func (p *peeler) origin(b []byte, spans []span) []span {
	var room [maxUndone]byte
	list := make([]span, 0, len(spans))
	open := false
	for i, at := 0, 0; i < len(b) && len(spans) > 0; {
		n, end := 1, at+1
		if escapes(b[i]) {
			if c, taken := p.undo(room[:0], b, i); taken > 0 {
				n, end = taken, at+len(c)
			}
		}
		for len(spans) > 0 && end > spans[0].from {
			if !open {
				list, open = append(list, span{from: i}), true
			}
			if end < spans[0].to {
				break
			}
			list[len(list)-1].to = i + n
			spans, open = spans[1:], false
		}
		i, at = i+n, end
	}
	return list
}

// maxUndone is the most bytes that one escape stands for: two characters of three.
const maxUndone = 8

// undo appends what the escape at b[i] stands for, which has n bytes; n is 0
// where there is none. Beyond what unescape knows, it reads characters that are
// not ASCII, and all of HTML's references.
func (p *peeler) undo(c, b []byte, i int) (_ []byte, n int) {
	if p.only != 0 && b[i] != p.only {
		return c, 0
	}
	if b[i] == '&' {
		if c, n = numbered(c, b, i); n == 0 {
			c, n = p.named(c, b, i)
		}
		if p.more && i+n == len(b) && b[i+n-1] != ';' {
			return c[:0], 0
		}
		return c, n
	}
	if one, n := unescape(b, i); n > 0 {
		return append(c, one), n
	}
	r := unit16(b, i)
	if utf16.IsSurrogate(r) {
		if r = utf16.DecodeRune(r, unit16(b, i+6)); r == utf8.RuneError {
			return c, 0
		}
		return utf8.AppendRune(c, r), 12
	}
	if r < 0 {
		return c, 0
	}
	return utf8.AppendRune(c, r), 6
}

// unit16 reads \uXXXX; without one it is negative.
func unit16(b []byte, i int) rune {
	if i+6 > len(b) || b[i] != '\\' || b[i+1] != 'u' {
		return -1
	}
	r := rune(0)
	for _, c := range b[i+2 : i+6] {
		if !isHex(c) {
			return -1
		}
		r = r<<4 | rune(hexValue(c))
	}
	return r
}

// number reads one of HTML's references by number, which has n bytes; n is 0 where there is none.
// It may have any number of zeros, and no semicolon.
func number(b []byte, i int) (r rune, n int) {
	if i+1 >= len(b) || b[i+1] != '#' {
		return 0, 0
	}
	j, base := i+2, rune(10)
	if j < len(b) && b[j]|0x20 == 'x' {
		j, base = j+1, 16
	}
	digits := j
	for ; j < len(b) && isHex(b[j]) && rune(hexValue(b[j])) < base; j++ {
		r = min(r*base+rune(hexValue(b[j])), utf8.MaxRune+1)
	}
	switch {
	case j == digits || !utf8.ValidRune(r):
		return 0, 0
	case j < len(b) && b[j] == ';':
		j++
	case escapedEnd(b[j:]):
		return 0, 0
	}
	return r, j - i
}

// numbered appends what a reference by number stands for.
func numbered(c, b []byte, i int) (_ []byte, n int) {
	r, n := number(b, i)
	switch {
	case n == 0:
		return c, 0
	case 0x80 <= r && r < 0xa0: // HTML has other characters for these
		return append(c, html.UnescapeString("&#"+strconv.Itoa(int(r))+";")...), n
	}
	return utf8.AppendRune(c, r), n
}

// maxName is the longest name of a reference, without the semicolon.
const maxName = 31

// named reads HTML's references by name. The old ones need no semicolon, and
// other letters may follow them at once.
func (p *peeler) named(c, b []byte, i int) (_ []byte, n int) {
	if one, n := entity(b, i); n > 0 {
		return append(c, one), n
	}
	end := i + 1
	for end < len(b) && end-i <= maxName && isAlnum(b[end]) {
		end++
	}
	if end < i+3 {
		return c, 0
	}
	if end < len(b) && b[end] == ';' {
		end++
	}
	name, text := b[i:end], p.text(b[i:end])
	if text == "" || escapedEnd(b[end:]) {
		return c, 0
	}
	_, size := utf8.DecodeRuneInString(text)
	if rest := text[size:]; bytes.HasSuffix(name, []byte(rest)) {
		return append(c, text[:size]...), len(name) - len(rest)
	}
	return append(c, text...), len(name)
}

// maxNames is how many names are remembered: more than HTML has of the old ones.
const maxNames = 256

// text is what HTML makes of a name, with the ampersand and all that may belong
// to it; empty where it makes nothing of it.
func (p *peeler) text(name []byte) string {
	if text, seen := p.names[string(name)]; seen {
		return text
	}
	text := html.UnescapeString(string(name))
	if text == string(name) {
		text = ""
	}
	if p.names == nil {
		p.names = map[string]string{}
	}
	if len(p.names) < maxNames {
		p.names[string(name)] = text
	}
	return text
}

var semicolon = regexp.MustCompile(`^(?:%(?:25){0,4}|\\u00)3[bB]`)

// escapedEnd reports whether a text begins with an escaped semicolon. Most encodings
// leave the ampersand of a reference alone and escape its semicolon: it has to
// wait for the layer where both are plain.
func escapedEnd(b []byte) bool { return len(b) > 0 && escapes(b[0]) && semicolon.Match(b) }

func isAlnum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= lower(c) && lower(c) <= 'z'
}
