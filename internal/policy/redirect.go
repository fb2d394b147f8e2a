package policy

import (
	"slices"
	"strings"

	"weir/schemas"
)

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

// Redirect decides about following a redirect: the same entry, GET and HEAD alone, no
// more hops than the entry allows (hop counts from 1), and the new URL decided
// as if it had been asked for: one that holds a parameter of the entry's query is
// refused, because to follow it would carry a credential on. Whatever is wrong,
// the code is DENY_REDIRECT.
// The Permit of a hop keeps the method and carries no headers of the entry;
// its addresses must be resolved and checked anew.
func (p *Permit) Redirect(location string, status, hop int) Decision {
	if !p.Valid() {
		return deny(nil, nil, deniedNoPermit)
	}
	q := question{method: p.method}
	var f denial
	switch {
	case !IsRedirect(status):
		f = deniedRedirectStatus
	case p.entry.Redirects == 0:
		f = deniedRedirectOff
	case !bare(q.method):
		f = deniedRedirectMethod
	case location == "":
		f = deniedRedirectLocation
	case hop < 1 || hop > p.entry.Redirects:
		f = deniedRedirectLimit
	case !p.follow(location, &q):
		f = deniedRedirectTarget
	}
	if f != nil {
		return deny(p.policy, p.entry, f)
	}
	return p.policy.allow(Permit{policy: p.policy, entry: p.entry, target: q.url.target, method: p.method, hop: hop})
}

// Leads resolves a Location against the URL that answered with it; Redirect decides whether it may
// be followed. Without a Location it is empty.
func (p *Permit) Leads(location string) string {
	if !p.Valid() || location == "" {
		return ""
	}
	return p.target.resolve(location)
}

// follow reads a Location into q and reports whether the entry covers it.
func (p *Permit) follow(location string, q *question) bool {
	var f denial
	if q.url, f = parseURL(p.target.resolve(location), false); f != nil {
		return false
	}
	q.pathForm = checkPath(q.url.Path)
	return p.policy.leads(p.entry, q)
}

// leads reports whether a hop may go where q leads under the entry.
func (p *Policy) leads(e *entry, q *question) bool {
	return e.fits(q) == nil && checkQuery(e, q.url.Query) == nil && p.checkTarget(e, &q.url.target) == nil
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
	origin := t.Scheme + "://" + t.Authority()
	switch {
	case strings.HasPrefix(location, "//"):
		return t.Scheme + ":" + location
	case strings.HasPrefix(location, "/"):
		return origin + location
	case strings.HasPrefix(location, "?"):
		return origin + t.Path + location
	default:
		return origin + t.Path[:strings.LastIndexByte(t.Path, '/')+1] + location
	}
}

// Renew asks p again about a call that old permitted, perhaps under another policy. If old is p's
// own, Renew permits the same, and does not report shadow entries again. The call itself is decided
// anew from r. A redirect hop is decided by the entry of the same name, which must still follow so
// many hops, cover the URL and leave the caller's headers alone. The new permit may differ from old
// (in its entry, its network, its headers): use only the new Permit. The zero Permit is not
// renewed.
func (p *Policy) Renew(old Permit, r Request) Decision {
	switch {
	case p == nil:
		return deny(nil, nil, deniedNoPolicy)
	case !old.Valid():
		return deny(p, nil, deniedNoPermit)
	case old.policy == p:
		return p.allow(old)
	case old.hop == 0:
		return p.Decide(r)
	}
	e := p.successor(old.entry)
	if e == nil || !r.usable(e) {
		return deny(p, nil, deniedRedirectRevoked)
	}
	q := question{url: parts{target: old.target}, pathForm: checkPath(old.target.Path), method: old.method}
	var f denial
	switch {
	case e.Redirects == 0:
		f = deniedRedirectOff
	case old.hop > e.Redirects:
		f = deniedRedirectLimit
	case !p.leads(e, &q), checkHeaders(e, r.Headers) != nil:
		f = deniedRedirectRevoked
	}
	if f != nil {
		return deny(p, e, f)
	}
	return p.allow(Permit{policy: p, entry: e, target: old.target, method: old.method, hop: old.hop})
}

// successor is p's enforced entry of the same name and kind.
func (p *Policy) successor(old *entry) *entry {
	switch {
	case old.Agent:
		return p.agents.byName[old.Name]
	case !old.item:
		return p.enforced.byName[old.Name]
	}
	for _, e := range p.enforced.entries {
		if e.item && e.Name == old.Name {
			return e
		}
	}
	return nil
}

// Reaches reports whether a call could be permitted whose URL begins with prefix, or equals it if
// whole is set, with a method; an empty method means any. With ofAgents it asks the entries of agents
// alone, which no other call reaches. It serves programs that prepare URLs for later calls. False is
// certain under this policy. True is not a decision: a prefix that ends before its path may become any
// URL, and Decide and the Permit check the rest. Shadow entries and those of models never match.
func (p *Policy) Reaches(method, prefix string, whole, ofAgents bool) bool {
	if p == nil {
		return false
	}
	entries := p.enforced.entries
	if ofAgents {
		entries = p.agents.entries
	}
	_, rest, _ := strings.Cut(prefix, "://")
	open := !whole && !strings.ContainsAny(rest, "/?")
	asked := parseMethod(method)
	return slices.ContainsFunc(entries, func(e *entry) bool {
		return (!ofAgents || strings.HasPrefix(e.Name, schemas.AgentEntryPrefix)) && slices.ContainsFunc(e.methods, func(with string) bool {
			return (method == "" || with == asked) && (open || p.reach(e, prefix, with, whole))
		})
	})
}

// reach reports whether an entry covers a URL, or one that begins so.
func (p *Policy) reach(e *entry, prefix, method string, whole bool) bool {
	if i := strings.LastIndexByte(prefix, '%'); !whole && i >= 0 && i >= len(prefix)-2 {
		prefix = prefix[:i] // an escape that has begun
	}
	u, f := parseURL(prefix, false)
	if f != nil {
		return false
	}
	q := question{url: u, method: method, pathForm: checkPath(u.Path)}
	switch {
	case whole:
	case u.HasQuery:
		q.url.Query = ""
	default: // the last segment may become any other
		q.pathForm = checkPath(u.Path[:strings.LastIndexByte(u.Path, '/')+1])
		if len(u.Path) < len(e.Path) && sameWritten(u.Path, e.Path[:len(u.Path)]) {
			q.url.Path = e.Path
		}
	}
	return p.leads(e, &q)
}
