package policy

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// checkPath refuses a path that a server might resolve to another one than it
// spells: dot segments in any dress, empty segments, encoded separators,
// escapes below escapes, control and look-alike characters. deniedPathSlash is
// the flaw of a path that has no other one, whether or not its escaped slashes
// are decoded.
// The escapes of p are well-formed and p begins with a slash.
func checkPath(p string) denial {
	if q := Slashed(p); q != p {
		return cmp.Or(checkSegments(p), checkSegments(q), deniedPathSlash)
	}
	return checkSegments(p)
}

// Slashed decodes the escaped slashes of a path.
func Slashed(p string) string {
	if !strings.Contains(p, "%2") {
		return p
	}
	return strings.ReplaceAll(strings.ReplaceAll(p, "%2F", "/"), "%2f", "/")
}

func checkSegments(p string) denial {
	for rest, more := p[1:], true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		if segment == "" && more {
			return deniedPathEmptySegment
		}
		if f := checkSegment(segment); f != nil {
			return f
		}
	}
	return nil
}

func checkSegment(raw string) denial {
	if strings.IndexByte(raw, '%') < 0 {
		if dotSegment(raw) {
			return deniedPathDots
		}
		return nil
	}
	var buf [256]byte
	s := unescape(buf[:0], raw)
	if !utf8.Valid(s) {
		return deniedPathUTF8
	}
	for i, c := range s {
		switch {
		case c == '\\':
			return deniedPathBackslash
		case c < ' ' || c == 0x7f:
			return deniedPathControl
		case c == '%' && escapeFollows(s[i+1:]):
			return deniedPathTwice
		}
	}
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRune(s[i:])
		if r >= utf8.RuneSelf && lookAlike(r) {
			return deniedPathLookAlike
		}
		i += n
	}
	if dotSegment(string(s)) {
		return deniedPathDots
	}
	return nil
}

// dotSegment holds for . and .. also where parameters follow (..;a=b, which
// servlet containers strip first) or an escaped query or fragment does (which
// ends the path for a proxy that decodes and parses again), and with spaces
// around (which some file systems strip).
func dotSegment(s string) bool {
	if end := strings.IndexAny(s, ";?#"); end >= 0 {
		s = s[:end]
	}
	s = strings.TrimFunc(s, unicode.IsSpace)
	return s == "." || s == ".."
}

// escapeFollows holds where a decoded percent sign begins another escape, in
// the standard form or in the %uXXXX one.
func escapeFollows(s []byte) bool {
	if len(s) < 2 {
		return false
	}
	return (hexDigit(s[0]) || s[0]|0x20 == 'u') && hexDigit(s[1])
}

// lookAlike holds for characters that compatibility normalisation, or a
// person's eye, takes for the ones a path is made of, and for invisible ones.
func lookAlike(r rune) bool {
	const (
		dots        = "\u2024\u2025\u2026\u3002\ufe19\ufe30\ufe52\uff0e\uff61"
		slashes     = "\u2044\u2215\u2571\u29f8\u3033\uff0f" + "\u2100\u2101\u2105\u2106" // and letters that decompose with one
		backslashes = "\u2216\u29f5\u29f9\ufe68\uff3c"
		others      = "\u037e\ufe14\ufe54\uff1b\ufe6a\uff05\ufe5f\uff03" + "\u2047\u2048\u2049\ufe16\ufe56\uff1f" // ; % # ?
	)
	if strings.ContainsRune(dots+slashes+backslashes+others, r) {
		return true
	}
	return unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Cc, r) ||
		unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
}

// unescape appends s to dst with its well-formed escapes decoded.
func unescape(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			dst = append(dst, s[i])
			continue
		}
		dst = append(dst, hexValue(s[i+1])<<4|hexValue(s[i+2]))
		i += 2
	}
	return dst
}

func hexValue(c byte) byte {
	if digit(c) {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

// covers reports whether path is prefix or lies below it. A prefix with a
// trailing slash covers only what lies below. Both are compared as written, so
// that an escaped letter is another path; only the case of hex digits is free.
func covers(prefix, path string) bool {
	if prefix == "" || prefix == "/" {
		return true
	}
	if len(path) < len(prefix) || !sameWritten(prefix, path[:len(prefix)]) {
		return false
	}
	return len(path) == len(prefix) || prefix[len(prefix)-1] == '/' || path[len(prefix)] == '/'
}

func sameWritten(a, b string) bool {
	if a == b {
		return true
	}
	for i := 0; i < len(a); i++ {
		if a[i] != b[i] {
			return false
		}
		if a[i] == '%' {
			if i+2 >= len(a) || lower(a[i+1]) != lower(b[i+1]) || lower(a[i+2]) != lower(b[i+2]) {
				return false
			}
			i += 2
		}
	}
	return true
}
