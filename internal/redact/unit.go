package redact

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// escapes reports whether c may begin an escape.
func escapes(c byte) bool { return c == '%' || c == '\\' || c == '&' }

// unescape reads one escaped character at b[i]: %XX, one of JSON's or one of HTML's. It gives what
// the escape stands for and how many bytes it takes; n is 0 where there is none.
func unescape(b []byte, i int) (c byte, n int) {
	switch {
	case b[i] == '&':
		return entity(b, i)
	case b[i] == '\\' && i+1 < len(b):
		return backslash(b, i)
	case b[i] == '%' && i+2 < len(b) && isHex(b[i+1]) && isHex(b[i+2]):
		return hexValue(b[i+1])<<4 | hexValue(b[i+2]), 3
	}
	return 0, 0
}

// entity reads HTML's references to ASCII characters.
func entity(b []byte, i int) (byte, int) {
	const most = 2 * maxUnfinished // bytes of a reference: more are needless zeros
	if r, n := number(b[:min(len(b), i+most)], i); 0 < n && n < most && r < utf8.RuneSelf {
		return byte(r), n //nolint:gosec // ASCII
	}
	for at, name := range [...]string{"amp;", "lt;", "gt;", "quot;", "apos;"} {
		if bytes.HasPrefix(b[i+1:], []byte(name)) {
			return `&<>"'`[at], len(name) + 1
		}
	}
	return 0, 0
}

// backslash reads JSON's escapes of ASCII characters.
func backslash(b []byte, i int) (byte, int) {
	if at := strings.IndexByte(`"\/'bfnrt`, b[i+1]); at >= 0 {
		return "\"\\/'\b\f\n\r\t"[at], 2
	}
	if r := unit16(b, i); 0 <= r && r < 0x80 {
		return byte(r), 6
	}
	return 0, 0
}

// maxUnfinished is the longest escape that may be unfinished: a reference of HTML
// whose ampersand is one of JSON's.
const maxUnfinished = 6 + maxName + 1

// unfinished reports whether b ends with a possible beginning of an escape at i. What follows it may
// itself be an escape that is not finished.
func unfinished(b []byte, i int) bool {
	rest := b[i+1:]
	if len(rest) >= maxUnfinished {
		return false
	}
	if b[i] == '\\' && len(rest) > 0 && rest[0] != 'u' && !escapes(rest[0]) {
		return false
	}
	for _, c := range rest {
		if !isAlnum(c) && c != '#' && !escapes(c) {
			return false
		}
	}
	return true
}

func isHex(c byte) bool {
	return ('0' <= c && c <= '9') || ('a' <= c|0x20 && c|0x20 <= 'f')
}

func hexValue(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
