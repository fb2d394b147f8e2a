package policy

import "strings"

// IsRedirect reports whether a status is one whose Location may be followed.
// The other statuses of the class are answers like any other: 300 is a choice,
// 304 the answer to a condition, and 305 would name a proxy.
func IsRedirect(status int) bool {
	switch status {
	case 301, 302, 303, 307, 308:
		return true
	}
	return false
}

// Hop decides about following a redirect: the same entry, GET and HEAD alone, no
// more hops than the entry allows (hop counts from 1), and the new URL decided
// as if it had been asked for: one that holds a parameter of the entry's query is
// refused, because to follow it would carry a credential on. Whatever is wrong,
// the code is DENY_REDIRECT.
// The Permit of a hop keeps the method and carries no headers of the entry;
// its addresses are to be resolved and checked anew.
func (p Permit) Hop(location string, status, hop int) Decision {
	if !p.Valid() {
		return deny(nil, nil, flawNoPermit)
	}
	q := question{}
	q.method, q.bit = parseMethod(p.method)
	var f flaw
	switch {
	case !IsRedirect(status):
		f = flawRedirectStatus
	case p.entry.redirects == 0:
		f = flawRedirectOff
	case q.bit&(methodGET|methodHEAD) == 0:
		f = flawRedirectMethod
	case location == "":
		f = flawRedirectLocation
	case hop < 1 || hop > p.entry.redirects:
		f = flawRedirectLimit
	case !p.follow(location, &q):
		f = flawRedirectTarget
	}
	if f != nil {
		return deny(p.policy, p.entry, f)
	}
	return p.policy.allow(Permit{policy: p.policy, entry: p.entry, target: q.url.target, method: p.method, hop: hop})
}

// Leads is a Location made whole against the URL that answered with it, and nothing more:
// it is for Hop to say whether it may be followed. Without a Location it is empty.
func (p Permit) Leads(location string) string {
	if !p.Valid() || location == "" {
		return ""
	}
	return p.target.resolve(location)
}

// follow reads a Location into q and reports whether the entry covers it.
func (p Permit) follow(location string, q *question) bool {
	var f flaw
	if q.url, f = parseURL(p.target.resolve(location), false); f != nil {
		return false
	}
	q.pathForm = checkPath(q.url.path)
	return p.policy.leads(p.entry, q)
}

// leads reports whether a hop may go where q leads under the entry.
func (p *Policy) leads(e *entry, q *question) bool {
	return e.fits(q) == nil && checkQuery(e, q.url.query) == nil && p.checkTarget(e, &q.url.target) == nil
}

// resolve makes a reference whole against the URL that answered with it. It
// merges without removing dot segments, so that the path check sees them.
func (t *target) resolve(location string) string {
	first := location
	if i := strings.IndexAny(location, "/?#"); i >= 0 {
		first = location[:i]
	}
	if strings.Contains(first, ":") { // a scheme, or nothing that RFC 3986 knows
		return location
	}
	origin := t.scheme + "://" + t.authority()
	switch {
	case strings.HasPrefix(location, "//"):
		return t.scheme + ":" + location
	case strings.HasPrefix(location, "/"):
		return origin + location
	case strings.HasPrefix(location, "?"):
		return origin + t.path + location
	default:
		return origin + t.path[:strings.LastIndexByte(t.path, '/')+1] + location
	}
}
