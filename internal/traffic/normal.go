package traffic

import (
	"strconv"
	"strings"
)

// normal is a path or a query with the escapes of unreserved characters (RFC 3986)
// decoded and the others in upper case. What is no escape stays.
func normal(s string) string {
	i := strings.IndexByte(s, '%')
	if i < 0 {
		return s
	}
	out := append(make([]byte, 0, len(s)), s[:i]...)
	for ; i < len(s); i++ {
		if s[i] != '%' || i+2 >= len(s) {
			out = append(out, s[i])
			continue
		}
		c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		switch {
		case err != nil:
			out = append(out, s[i])
			continue
		case unreserved(byte(c)):
			out = append(out, byte(c))
		default:
			out = append(out, upper(s[i:i+3])...)
		}
		i += 2
	}
	return string(out)
}

func unreserved(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}
