package wire

import (
	"net/textproto"
	"strings"
)

// PerConnection reports whether a field, in canonical case, belongs to one connection and not to the
// message: no proxy passes it on.
func PerConnection(name string) bool {
	switch name {
	case "Connection", "Http2-Settings", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return strings.HasPrefix(name, "Proxy-")
}

// Named adds the fields that a value of Connection names to names, in canonical case. They belong to
// the connection too.
func Named(names []string, value string) []string {
	for name := range strings.SplitSeq(value, ",") {
		names = append(names, textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)))
	}
	return names
}
