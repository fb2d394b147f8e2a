package redact

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// maxEscapes is how often an escape may be escaped again: %XX, %25XX, %2525XX.
const maxEscapes = 3

// escapes reports whether c may begin an escape.
func escapes(c byte) bool { return c == '%' || c == '\\' || c == '&' }

// unescape reads one escaped character at b[i]: %XX, whose percent sign may be
// escaped again (depth counts from 1), one of JSON's or one of HTML's, whose
// ampersand may be JSON's at depth 2. It gives what the escape stands for and how
// many bytes it takes; n is 0 where there is none of that depth.
func unescape(b []byte, i, depth int) (c byte, n int) {
	switch b[i] {
	case '%':
		j := i + 1
		for range depth - 1 {
			if j+1 >= len(b) || b[j] != '2' || b[j+1] != '5' {
				return 0, 0
			}
			j += 2
		}
		if j+1 < len(b) && isHex(b[j]) && isHex(b[j+1]) {
			return hexValue(b[j])<<4 | hexValue(b[j+1]), j + 2 - i
		}
	case '\\':
		if i+1 >= len(b) {
			break
		}
		c, n = backslash(b, i)
		switch {
		case depth == 1:
			return c, n
		case depth == 2 && c == '&': // HTML in JSON
			return entity(b, i, n)
		}
	case '&':
		if depth == 1 {
			return entity(b, i, 1)
		}
	}
	return 0, 0
}

// maxEntity is the longest character reference that is read; leading zeros
// could make it longer.
const maxEntity = 12

// entity reads HTML's references to ASCII characters. The ampersand is at b[i]
// and takes the first n bytes.
func entity(b []byte, i, n int) (byte, int) {
	rest := b[i+n : min(len(b), i+n+maxEntity)]
	end := bytes.IndexByte(rest, ';')
	if end < 1 {
		return 0, 0
	}
	name := string(rest[:end])
	n += end + 1
	if at := slices.Index([]string{"amp", "lt", "gt", "quot", "apos"}, name); at >= 0 {
		return `&<>"'`[at], n
	}
	digits, ok := strings.CutPrefix(name, "#")
	if !ok {
		return 0, 0
	}
	base := 10
	if digits != "" && digits[0]|0x20 == 'x' {
		digits, base = digits[1:], 16
	}
	v, err := strconv.ParseUint(digits, base, 7)
	if err != nil {
		return 0, 0
	}
	return byte(v), n
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

// unfinished reports whether b ends with a possible beginning of an escape at i.
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

func isHex(c byte) bool {
	return ('0' <= c && c <= '9') || ('a' <= c|0x20 && c|0x20 <= 'f')
}

func hexValue(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
