package executor

import (
	"strings"

	"weir/schemas"
)

// host is the host that a call names, as far as its URL tells, in lower case and
// without port or user information: for the words of a refusal.
func host(c schemas.HTTPCall) string {
	_, rest, _ := strings.Cut(c.URL, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	if inner, ok := strings.CutPrefix(rest, "["); ok {
		rest, _, _ = strings.Cut(inner, "]")
	} else {
		rest, _, _ = strings.Cut(rest, ":")
	}
	return strings.ToLower(rest)
}
