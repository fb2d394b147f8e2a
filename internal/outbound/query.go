package outbound

import (
	"strings"

	"weir/schemas"
)

// extend adds parameters to a target.
func extend(target string, query []schemas.Header) string {
	if len(query) == 0 {
		return target
	}
	var b strings.Builder
	b.WriteString(target)
	mark := strings.IndexByte(target, '?')
	if mark < 0 {
		b.WriteByte('?')
	}
	apart := mark < 0 || mark == len(target)-1 || strings.HasSuffix(target, "&")
	for _, q := range query {
		if !apart {
			b.WriteByte('&')
		}
		apart = false
		escape(&b, q.Name)
		b.WriteByte('=')
		escape(&b, q.Value)
	}
	return b.String()
}

// escape writes all but RFC 3986's unreserved characters as %XX, so that every
// reader of a query, of the form kind too, finds the same text in it.
func escape(b *strings.Builder, s string) {
	const digits = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
}
