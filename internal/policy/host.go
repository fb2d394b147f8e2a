package policy

import (
	"net/netip"
	"strings"
)

const (
	maxHost  = 253
	maxLabel = 63
)

// parseHost reads a name or a dotted quad. A host of another shape is a flaw of
// the URL (bad); a host that is shaped like one but stands for different things
// to different resolvers is refused by the host check (odd).
func parseHost(s string) (host string, addr netip.Addr, odd, bad denial) {
	if s == "" {
		return "", addr, nil, deniedNoHost
	}
	name := strings.TrimSuffix(s, ".")
	if len(name) < len(s) {
		odd = deniedHostDot
	}
	if len(name) > maxHost {
		return "", addr, nil, deniedHostLength
	}
	upper := false
	last := 0 // where the last label begins
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '.' {
			if name[i] == '*' {
				return "", addr, nil, deniedHostWildcard
			}
			if !hostByte(name[i]) {
				return "", addr, nil, deniedHostCharacter
			}
			upper = upper || name[i] != lower(name[i])
			continue
		}
		label := name[last:i]
		if label == "" || len(label) > maxLabel {
			return "", addr, nil, deniedHostLength
		}
		if odd == nil && (label[0] == '-' || label[len(label)-1] == '-') {
			odd = deniedHostHyphen
		}
		if i < len(name) {
			last = i + 1
		}
	}
	if upper {
		name = strings.ToLower(name) // ASCII alone: see hostByte
	}
	if numeric(name[last:]) {
		var err error
		if addr, err = netip.ParseAddr(name); err != nil {
			return name, netip.Addr{}, deniedHostNumeric, nil
		}
		name = addr.String()
	}
	return name, addr, odd, nil
}

// hostByte holds for letters, digits, the hyphen and the underscore, which real
// names have. Names in other scripts come as A-labels.
func hostByte(c byte) bool { return letter(c) || digit(c) || c == '-' || c == '_' }

// numeric holds for a last label that some resolver reads as a number: digits,
// or 0x and hex digits. A host that ends in one must be a plain dotted quad.
func numeric(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdefABCDEF") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// parseIPv6 reads the text between brackets: an IPv6 address without zone.
func parseIPv6(s string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(s)
	if err != nil || !addr.Is6() || addr.Zone() != "" {
		return netip.Addr{}, false
	}
	return addr, true
}

// loopbackName holds for the names that RFC 6761 reserves for loopback.
func loopbackName(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
