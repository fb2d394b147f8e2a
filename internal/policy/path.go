package policy

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// checkPath refuses a path that a server might resolve to another one than it
// spells: dot segments in any dress, empty segments, encoded separators,
// escapes below escapes, control and look-alike characters.
// The escapes of p are well-formed and p begins with a slash.
func checkPath(p string) denial {
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
		case c == '/' || c == '\\':
			return deniedPathSlash
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
	switch r {
	case 0x2024, 0x2025, 0x2026, 0x3002, 0xfe19, 0xfe30, 0xfe52, 0xff0e, 0xff61: // dots
		return true
	case 0x2044, 0x2215, 0x2571, 0x29f8, 0x3033, 0xff0f, // slashes
		0x2100, 0x2101, 0x2105, 0x2106: // letters that decompose with a slash
		return true
	case 0x2216, 0x29f5, 0x29f9, 0xfe68, 0xff3c: // backslashes
		return true
	case 0x037e, 0xfe14, 0xfe54, 0xff1b, 0xfe6a, 0xff05, 0xfe5f, 0xff03, // ; % #
		0x2047, 0x2048, 0x2049, 0xfe16, 0xfe56, 0xff1f: // ?
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
