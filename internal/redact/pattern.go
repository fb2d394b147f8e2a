package redact

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"unicode/utf16"
)

// minPattern is the shortest run of bytes that is looked for.
const minPattern = 4

// pattern is one form of a secret. Escapes (percent, JSON) are not forms: they
// are undone while matching, so that every mixture of them is found.
type pattern struct {
	bytes string
	fold  bool // letters in either case
	plus  bool // a space may stand as a plus, as in forms
	// b64 is set for base64: the two alphabets are one, and the neighbours that
	// hold some bits of the secret (head, tail) go with it.
	b64        bool
	head, tail func(c byte) bool
}

// patterns are the forms of one secret.
func patterns(secret string) []pattern {
	list := []pattern{
		{bytes: secret, fold: true, plus: strings.Contains(secret, " ")},
		{bytes: hex.EncodeToString([]byte(secret)), fold: true},
	}
	for offset := range 3 {
		if p, ok := aligned(secret, offset); ok {
			list = append(list, p)
		}
	}
	if s := asciiJSON(secret); s != secret {
		list = append(list, pattern{bytes: s, fold: true})
	} else {
		list = append(list, pattern{bytes: wide(secret), fold: true})
	}
	return list
}

// wide is an ASCII secret in UTF-16 of either byte order, without the outermost
// zeros, which belong to one order each.
func wide(secret string) string { return strings.Join(strings.Split(secret, ""), "\x00") }

// aligned is what base64 makes of a secret that stands offset bytes into a
// group of three: the characters that depend on nothing else, and at the ends
// those that also hold bits of its neighbours.
func aligned(secret string, offset int) (pattern, bool) {
	padded := append(make([]byte, offset, offset+len(secret)+2), secret...)
	end := len(padded) * 8 / 6 // whole characters
	first := (offset*8 + 5) / 6
	encoded := base64.StdEncoding.EncodeToString(append(padded, 0, 0))
	p := pattern{bytes: encoded[first:end], b64: true}
	if len(p.bytes) < minPattern {
		return p, false
	}
	if first > offset*8/6 { // the low bits of the character before are the secret's
		known := first*6 - offset*8
		want, mask := sextet(encoded[first-1]), 1<<known-1
		p.head = func(c byte) bool { v := sextet(c); return v >= 0 && v&mask == want&mask }
	}
	if rest := len(padded)*8 - end*6; rest > 0 { // the high bits of the one behind
		want, shift := sextet(encoded[end]), 6-rest
		p.tail = func(c byte) bool { v := sextet(c); return v >= 0 && v>>shift == want>>shift }
	}
	return p, true
}

// sextet is the value of a character of either base64 alphabet; -1 for others.
func sextet(c byte) int {
	const alphabets = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
	at := strings.IndexByte(alphabets, c)
	if at >= 64 {
		return at - 2
	}
	return at
}

// asciiJSON is the secret as JSON in which everything beyond ASCII is escaped.
// It is the secret itself where that is ASCII.
func asciiJSON(secret string) string {
	var b strings.Builder
	for _, r := range secret {
		if r < 0x80 {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			b.WriteString(`\u`)
			b.WriteString(hex.EncodeToString(binary.BigEndian.AppendUint16(nil, unit)))
		}
	}
	return b.String()
}

// accepts reports whether c stands for the pattern's ith byte.
func (p *pattern) accepts(i int, c byte) bool {
	want := p.bytes[i]
	switch {
	case c == want:
		return true
	case p.fold && lower(c) == lower(want):
		return true
	case p.plus:
		return want == ' ' && c == '+'
	case p.b64:
		return want == '+' && c == '-' || want == '/' && c == '_'
	}
	return false
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}
