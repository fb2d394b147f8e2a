package policy

import (
	"strconv"
	"strings"
)

// Parts are a URL as Decide reads it: what is matched, and what is sent.
type Parts struct {
	Scheme string // http or https
	Host   string // lower case; an IPv6 address without brackets
	Port   uint16 // always set
	Path   string // as it was written, escapes kept; never empty
	Query  string // as it was written, without the question mark
	// HasQuery: there is a question mark.
	HasQuery bool
}

// Split reads a URL by Decide's grammar. It is false for one that Decide denies for
// its form, whatever the policy: what is no URL, and what has a user, or a host or a
// path that others may read as another one.
func Split(url string, dropFragment bool) (Parts, bool) {
	u, f := parseURL(url, dropFragment)
	if f != nil || u.userinfo || u.hostForm != nil || checkPath(u.path) != nil {
		return Parts{}, false
	}
	return u.parts(), true
}

// Readable reports whether a URL is one by Decide's grammar, even if Decide denies
// it for its user, its host or its path.
func Readable(url string) bool {
	_, f := parseURL(url, false)
	return f == nil
}

func (t *target) parts() Parts {
	return Parts{Scheme: t.scheme, Host: t.host, Port: t.port, Path: t.path, Query: t.query, HasQuery: t.hasQuery}
}

// HostText is the host as it stands in a URL: an IPv6 address in brackets.
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
