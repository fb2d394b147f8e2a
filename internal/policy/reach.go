package policy

import (
	"slices"
	"strings"

	"weir/schemas"
)

// Reaches reports whether a call could be permitted whose URL begins with prefix, or equals it if
// whole is set, with a method; an empty method means any. With ofAgents it asks the entries of agents
// alone, which no other call reaches. It serves programs that prepare URLs for later calls. False is
// certain under this policy. True is not a decision: a prefix that ends before its path may become any
// URL, and Decide and the Permit check the rest. Shadow entries and those of models never match.
func (p *Policy) Reaches(method, prefix string, whole, ofAgents bool) bool {
	if p == nil {
		return false
	}
	entries, bit := p.enforced.entries, methodsAll
	if ofAgents {
		entries = p.agents.entries
	}
	if method != "" {
		_, bit = parseMethod(method)
	}
	_, rest, _ := strings.Cut(prefix, "://")
	open := !whole && !strings.ContainsAny(rest, "/?")
	return slices.ContainsFunc(entries, func(e *entry) bool {
		return e.methods&bit != 0 && (!ofAgents || strings.HasPrefix(e.Name, schemas.AgentEntryPrefix)) &&
			(open || p.reach(e, prefix, bit, whole))
	})
}

// reach reports whether an entry covers a URL, or one that begins so.
func (p *Policy) reach(e *entry, prefix string, bit methods, whole bool) bool {
	if i := strings.LastIndexByte(prefix, '%'); !whole && i >= 0 && i >= len(prefix)-2 {
		prefix = prefix[:i] // an escape that has begun
	}
	u, f := parseURL(prefix, false)
	if f != nil {
		return false
	}
	q := question{url: u, bit: bit, pathForm: checkPath(u.Path)}
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
