package traffic

import (
	"strconv"
	"strings"

	"weir/internal/policy"
	"weir/schemas"
)

// allURLs is the pattern of every URL that has no wildcard of its own; anyURL is
// the one whose only wildcard is the whole URL.
const (
	allURLs = "<all_urls>"
	anyURL  = "*"
)

// pattern says which URLs a rule is for. It is held against the parts of a URL as
// policy reads them. Of the path and the query, the pattern's and the URL's normal
// forms are compared: an escape of a character that needs none is that character,
// and the hex digits of the others are in upper case. A target reads both alike, and
// a rule must not miss a call for its dress. Wildcards take what they match from the
// normal form.
type pattern struct {
	every   bool   // every URL; the rest is not looked at
	whole   bool   // every, with one wildcard that is the URL
	scheme  string // empty: either, and a wildcard
	host    glob   // lower case; an IPv6 address in brackets
	port    uint16 // 0: see anyPort and the host
	anyPort bool   // the port is a wildcard
	path    glob
	query   bool // the path's text is path and query
	literal int  // bytes that are no wildcard, as it was written
}

// site is where a call goes: its parts, and what of them patterns are held against.
type site struct {
	policy.Parts

	host string // an IPv6 address in brackets
	// The path, and path and query, in their normal form.
	normalPath, normalTail string
	// slashed are both with a slash for each escaped one, which an entry may permit.
	slashedPath, slashedTail string
}

// readSite is false for a URL that policy denies for its form.
func readSite(url string, dropFragment bool) (site, bool) {
	p, ok := policy.Split(url, dropFragment)
	if !ok {
		return site{}, false
	}
	at := site{Parts: p, host: p.HostText(), normalPath: normal(p.Path)}
	at.normalTail = at.normalPath
	if p.HasQuery {
		at.normalTail = normal(at.Target)
	}
	at.slashedPath = policy.Slashed(at.normalPath)
	at.slashedTail = at.slashedPath + at.normalTail[len(at.normalPath):]
	return at, true
}

func ownPort(scheme string) uint16 {
	if scheme == "http" {
		return 80
	}
	return 443
}

// text is the URL as it is called, without the query where that is not wanted.
func (s site) text(query bool) string {
	if query {
		return s.Scheme + "://" + s.Authority() + s.Target
	}
	return s.Scheme + "://" + s.Authority() + s.Path
}

func badPattern(message string) error {
	return &Invalid{Pointer: "/match/url_pattern", Message: message}
}

// parsePattern reads scheme://host[:port][/path]. Its errors are *Invalid.
func parsePattern(s string, includeQuery bool) (pattern, error) {
	switch {
	case s == "":
		return pattern{}, badPattern("is missing")
	case len(s) > schemas.MaxRulePattern:
		return pattern{}, badPattern("is longer than " + strconv.Itoa(schemas.MaxRulePattern) + " bytes")
	case s == allURLs:
		return pattern{every: true, query: includeQuery}, nil
	case s == anyURL:
		return pattern{every: true, whole: true, query: includeQuery}, nil
	}
	if err := checkPatternText(s, includeQuery); err != nil {
		return pattern{}, err
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return pattern{}, badPattern("must be scheme://host[:port]/path, with * for any characters, or * alone")
	}
	p := pattern{query: includeQuery, literal: len(s) - strings.Count(s, "*")}
	switch scheme = strings.ToLower(scheme); scheme {
	case "http", "https":
		p.scheme = scheme
	case "*":
	default:
		return pattern{}, badPattern("the scheme must be http, https or *")
	}
	authority, path := rest, "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if path[0] == '?' {
		path = "/" + path
	}
	p.path = newGlob(normal(path))
	if err := p.setAuthority(authority); err != nil {
		return pattern{}, err
	}
	if p.stars() > schemas.MaxRuleWildcards {
		return pattern{}, badPattern("has more than " + strconv.Itoa(schemas.MaxRuleWildcards) + " wildcards")
	}
	return p, nil
}

func checkPatternText(s string, includeQuery bool) error {
	for i := range len(s) {
		switch c := s[i]; {
		case c == '#':
			return badPattern("has a fragment, which is never sent")
		case c == '?' && !includeQuery:
			return badPattern("holds a question mark, and include_query is not set")
		case c <= ' ', c >= 0x7f, strings.IndexByte("\"<>\\^`{|}", c) >= 0:
			return badPattern("holds a character that no URL has; percent-encode it, and write a host in other scripts as A-labels")
		}
	}
	return nil
}

// setAuthority reads host[:port].
func (p *pattern) setAuthority(s string) error {
	if strings.Contains(s, "@") {
		return badPattern("holds a user; a URL that has one is never called")
	}
	host := s
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		host = s[:i]
		if err := p.setPort(s[i+1:]); err != nil {
			return err
		}
	}
	if !strings.Contains(host, "*") {
		parts, ok := policy.Split("http://"+host+":1/", false) // with a port, it cannot bring a second one
		if !ok {
			return badPattern("the host is no host name")
		}
		p.host = glob{chunks: []string{parts.HostText()}}
		return nil
	}
	host = strings.ToLower(host)
	for i := range len(host) {
		if c := host[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && strings.IndexByte("-._*", c) < 0 {
			return badPattern("the host is no host name with wildcards")
		}
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' {
			return badPattern("the host is no host name with wildcards")
		}
	}
	p.host = newGlob(host)
	return nil
}

func (p *pattern) setPort(s string) error {
	if s == "*" {
		p.anyPort = true
		return nil
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || s[0] == '0' || s[0] == '+' {
		return badPattern("the port must be a number from 1 to 65535, or *")
	}
	p.port = uint16(n)
	return nil
}

// stars counts the wildcards.
func (p *pattern) stars() int {
	n := 0
	for _, wild := range []bool{p.whole, p.scheme == "" && !p.every, p.anyPort} {
		if wild {
			n++
		}
	}
	return n + p.host.stars() + p.path.stars()
}

// subject is what the path's text is held against: the form that it matches, as targets read both.
func (p *pattern) subject(at *site) string {
	as, slashed := at.normalPath, at.slashedPath
	if p.query {
		as, slashed = at.normalTail, at.slashedTail
	}
	if as == slashed || p.path.match(as) {
		return as
	}
	return slashed
}

// fits reports whether the pattern matches a URL.
func (p *pattern) fits(at *site) bool {
	return p.every || p.reaches(at) && p.path.match(p.subject(at))
}

// reaches reports whether the pattern matches what is before the path of a URL.
func (p *pattern) reaches(at *site) bool {
	return p.every || (p.scheme == "" || p.scheme == at.Scheme) && p.fitsPort(at) && p.host.match(at.host)
}

// fitsPort: without a port it is the scheme's own, but a wildcard at the end of
// the host goes on to the next slash.
func (p *pattern) fitsPort(at *site) bool {
	switch {
	case p.anyPort:
		return true
	case p.port != 0:
		return p.port == at.Port
	default:
		return at.Port == ownPort(at.Scheme) || p.host.open()
	}
}

// capture appends what the wildcards matched, from the left to the right.
func (p *pattern) capture(out []string, at *site) []string {
	if p.every {
		if p.whole {
			out = append(out, at.text(p.query))
		}
		return out
	}
	if p.scheme == "" {
		out = append(out, at.Scheme)
	}
	out = p.host.capture(out, at.host)
	if p.port == 0 && !p.anyPort && at.Port != ownPort(at.Scheme) {
		out[len(out)-1] += ":" + strconv.Itoa(int(at.Port))
	}
	if p.anyPort {
		out = append(out, strconv.Itoa(int(at.Port)))
	}
	return p.path.capture(out, p.subject(at))
}

// normal is a path or a query with the escapes of unreserved characters (RFC 3986) decoded and the
// others in upper case. Invalid escapes stay.
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

// glob is a text with wildcards: chunks is what stands between them, one more
// than there are wildcards. Each wildcard but the last matches as little as it can.
type glob struct{ chunks []string }

func newGlob(s string) glob { return glob{chunks: strings.Split(s, "*")} }

func (g glob) stars() int { return max(len(g.chunks)-1, 0) }

// open reports whether the last thing is a wildcard.
func (g glob) open() bool { return g.stars() > 0 && g.chunks[g.stars()] == "" }

// match takes each chunk at its leftmost place and never goes back, so its time
// grows with the text and not with what the wildcards could be.
func (g glob) match(s string) bool {
	first, last := g.chunks[0], g.chunks[len(g.chunks)-1]
	if !strings.HasPrefix(s, first) {
		return false
	}
	s = s[len(first):]
	if len(g.chunks) == 1 {
		return s == ""
	}
	if !strings.HasSuffix(s, last) {
		return false
	}
	s = s[:len(s)-len(last)]
	for _, c := range g.chunks[1 : len(g.chunks)-1] {
		i := strings.Index(s, c)
		if i < 0 {
			return false
		}
		s = s[i+len(c):]
	}
	return true
}

// capture appends what the wildcards matched. S is known to match.
func (g glob) capture(dst []string, s string) []string {
	if g.stars() == 0 {
		return dst
	}
	s = s[len(g.chunks[0]) : len(s)-len(g.chunks[g.stars()])]
	for _, c := range g.chunks[1:g.stars()] {
		i := max(strings.Index(s, c), 0)
		dst = append(dst, s[:i])
		s = s[i+len(c):]
	}
	return append(dst, s)
}
