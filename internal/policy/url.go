package policy

import (
	"net/netip"
	"strconv"
	"strings"
)

// MaxURL bounds a URL, in bytes, merged parameters included.
const MaxURL = 8 << 10

// The schemes. Every target has one of these two very strings.
const (
	schemeHTTP  = "http"
	schemeHTTPS = "https"
)

// Parts are a URL as Decide reads it. They are both matched and sent.
type Parts struct {
	Scheme string // http or https
	Host   string // lower case; an IPv6 address without brackets, in its shortest form
	Port   uint16 // always set
	Path   string // as it was written, escapes kept; never empty
	Query  string // as it was written, without the question mark
	// HasQuery: there is a question mark.
	HasQuery bool
	Target   string // path and query, for the request line
}

// target is the destination of a call.
type target struct {
	Parts

	addr netip.Addr // valid where the host is a literal address
}

// parts is a parsed URL together with the flaws that only a later check may report, so that the
// order of checks holds.
type parts struct {
	target

	userinfo bool
	hostForm denial // a host that is well-formed, and refused whatever the entry
}

// Split parses a URL by Decide's grammar. It is false for a URL that Decide denies for its form
// under any policy: one that is malformed, has a user, or has an ambiguous host or path.
func Split(url string, dropFragment bool) (Parts, bool) {
	u, f := parseURL(url, dropFragment)
	if f != nil || u.userinfo || u.hostForm != nil {
		return Parts{}, false
	}
	if f = checkPath(u.Path); f != nil && f != deniedPathSlash { // which entries may permit
		return Parts{}, false
	}
	return u.Parts, true
}

// Read is Split for a URL that Decide may deny for its user, its host or its path.
func Read(url string, dropFragment bool) (Parts, bool) {
	u, f := parseURL(url, dropFragment)
	return u.Parts, f == nil
}

// parseURL is the grammar: scheme "://" [userinfo "@"] host [":" port] [path]
// ["?" query], in printable ASCII. It accepts less than RFC 3986, and nothing
// that two parsers are known to read in two ways.
func parseURL(s string, dropFragment bool) (parts, denial) {
	if len(s) > MaxURL {
		return parts{}, deniedURLLength
	}
	fragment := -1
	for i := range len(s) {
		switch c := s[i]; {
		case c == '#':
			if fragment < 0 {
				fragment = i
			}
		case !urlByte(c):
			return parts{}, deniedURLCharacter
		}
	}
	if fragment >= 0 {
		if !dropFragment || !hasPathOrQuery(s[:fragment]) {
			return parts{}, deniedFragment
		}
		s = s[:fragment]
	}
	return splitURL(s)
}

func splitURL(s string) (parts, denial) {
	name, rest, ok := cutScheme(s)
	if !ok {
		return parts{}, deniedNoScheme
	}
	var u parts
	switch {
	case equalLower(name, schemeHTTPS):
		u.Scheme, u.Port = schemeHTTPS, 443
	case equalLower(name, schemeHTTP):
		u.Scheme, u.Port = schemeHTTP, 80
	default:
		return parts{}, deniedSchemeUnknown
	}
	if !strings.HasPrefix(rest, "//") {
		return parts{}, deniedNoAuthority
	}
	authority, rest := rest[2:], ""
	if i := strings.IndexAny(authority, "/?"); i >= 0 {
		authority, rest = authority[:i], authority[i:]
	}
	if f := u.setAuthority(authority); f != nil {
		return parts{}, f
	}
	u.Target = rest
	u.Path, u.Query, u.HasQuery = strings.Cut(rest, "?")
	if u.Path == "" {
		u.Path, u.Target = "/", "/"+rest
	}
	if badEscape(u.Path) >= 0 || badEscape(u.Query) >= 0 {
		return parts{}, deniedEscape
	}
	return u, nil
}

// setAuthority reads [userinfo "@"] host [":" port].
func (u *parts) setAuthority(s string) denial {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		u.userinfo = true
		s = s[i+1:]
	}
	var host, port string
	if strings.HasPrefix(s, "[") {
		inner, after, ok := strings.Cut(s[1:], "]")
		if !ok || (after != "" && after[0] != ':') {
			return deniedHostLiteral
		}
		addr, ok := parseIPv6(inner)
		if !ok {
			return deniedHostLiteral
		}
		u.addr, u.Host, port = addr, addr.String(), after
	} else {
		if i := strings.IndexByte(s, ':'); i >= 0 {
			host, port = s[:i], s[i:]
		} else {
			host = s
		}
		var f denial
		if u.Host, u.addr, u.hostForm, f = parseHost(host); f != nil {
			return f
		}
	}
	if port == "" {
		return nil
	}
	n, ok := parsePort(port[1:])
	if !ok {
		return deniedPortForm
	}
	u.Port = n
	return nil
}

// cutScheme splits at the first colon, if the part before it is a scheme.
func cutScheme(s string) (name, rest string, ok bool) {
	name, rest, ok = strings.Cut(s, ":")
	return name, rest, ok && name != "" && letter(name[0]) && strings.Trim(name, alphanumeric+"+-.") == ""
}

// hasPathOrQuery reports whether something ended the authority of s.
func hasPathOrQuery(s string) bool {
	_, after, ok := strings.Cut(s, "://")
	return ok && strings.ContainsAny(after, "/?")
}

// parsePort reads 1 to 65535, in digits and without leading zeros.
func parsePort(s string) (uint16, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return uint16(n), err == nil && s[0] != '0'
}

// badEscape is where the first incomplete escape begins, or -1.
func badEscape(s string) int {
	for i := range len(s) {
		if s[i] == '%' && (i+2 >= len(s) || !hexDigit(s[i+1]) || !hexDigit(s[i+2])) {
			return i
		}
	}
	return -1
}

// HostText is the host as a URL has it: an IPv6 address in brackets.
func (p Parts) HostText() string {
	if strings.Contains(p.Host, ":") {
		return "[" + p.Host + "]"
	}
	return p.Host
}

// Authority is host[:port] as the Host header has it: without the scheme's own port.
func (p Parts) Authority() string {
	if (p.Scheme == schemeHTTP && p.Port == 80) || (p.Scheme == schemeHTTPS && p.Port == 443) {
		return p.HostText()
	}
	return p.HostText() + ":" + strconv.Itoa(int(p.Port))
}

func (t *target) String() string { return t.Scheme + "://" + t.Authority() + t.Target }

// urlByte holds for printable ASCII without the characters that no URL needs
// raw and that parsers disagree on.
func urlByte(c byte) bool {
	if c <= ' ' || c >= 0x7f {
		return false
	}
	switch c {
	case '"', '#', '<', '>', '\\', '^', '`', '{', '|', '}':
		return false
	}
	return true
}

const alphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

func letter(c byte) bool   { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func digit(c byte) bool    { return '0' <= c && c <= '9' }
func hexDigit(c byte) bool { return digit(c) || ('a' <= c|0x20 && c|0x20 <= 'f') }

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// equalLower compares s with a lower-case word of ASCII. The lengths tell the letters apart that Unicode
// folds into ASCII, such as U+017F: they are longer.
func equalLower(s, word string) bool { return len(s) == len(word) && strings.EqualFold(s, word) }

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
