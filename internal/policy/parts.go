package policy

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
// its form, whatever the policy.
func Split(url string, dropFragment bool) (Parts, bool) {
	u, f := parseURL(url, dropFragment)
	if f != flawNone {
		return Parts{}, false
	}
	t := u.target
	return Parts{Scheme: t.scheme, Host: t.host, Port: t.port, Path: t.path, Query: t.query, HasQuery: t.hasQuery}, true
}
