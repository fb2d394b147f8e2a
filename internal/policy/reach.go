package policy

import (
	"slices"
	"strconv"
	"strings"

	"weir/schemas"
)

// Reaches reports whether a call could be permitted whose URL begins with prefix, or equals it if
// whole is set, with a method; an empty method means any. It serves programs that prepare URLs for
// later calls. The prefix is empty, or reaches beyond the slashes that follow the scheme. False is
// certain under this policy. True is not a decision: Decide and the Permit check the rest of the
// URL, headers, body, the entry that a key names and the addresses of a name. Shadow entries and
// agents' entries never match.
func (p *Policy) Reaches(method, prefix string, whole bool) bool {
	b, ok := begin(prefix, method)
	return ok && p != nil && slices.ContainsFunc(p.enforced.entries, func(e *entry) bool { return p.reach(e, b, whole) })
}

// AgentReaches is Reaches for calls to agents, by their entries alone. Where agents
// are is not public: a host that has begun may become any of theirs, so that no
// caller finds one out letter by letter. Entries of models lead nowhere.
func (p *Policy) AgentReaches(method, prefix string, whole bool) bool {
	b, ok := begin(prefix, method)
	return ok && p != nil && slices.ContainsFunc(p.agents.entries, func(e *entry) bool {
		if !strings.HasPrefix(e.Name, schemas.AgentEntryPrefix) {
			return false
		}
		return !whole && !b.closed && e.methods&b.methods != 0 || p.reach(e, b, whole)
	})
}

// beginning is how a URL begins.
type beginning struct {
	text    string
	methods methods
	// scheme is empty if the text is. authority follows the scheme and its slashes; closed says that
	// more follows it: rest.
	scheme    string
	authority string
	closed    bool
	rest      string
}

// begin is false for what no URL begins with that Decide might permit.
func begin(text, method string) (beginning, bool) {
	b := beginning{text: text, methods: methodsAll}
	if method != "" {
		_, b.methods = parseMethod(method)
	}
	for i := range len(text) {
		if !urlByte(text[i]) {
			return b, false
		}
	}
	if text == "" {
		return b, true
	}
	scheme, rest, ok := strings.Cut(text, "://")
	switch {
	case !ok || len(text) > MaxURL:
		return b, false
	case equalLower(scheme, schemeHTTP):
		b.scheme = schemeHTTP
	case equalLower(scheme, schemeHTTPS):
		b.scheme = schemeHTTPS
	default:
		return b, false
	}
	b.authority = rest
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		b.authority, b.rest, b.closed = rest[:i], rest[i:], true
	}
	return b, true
}

// reach reports whether an entry leads where a URL begins so, or to the URL.
func (p *Policy) reach(e *entry, b beginning, whole bool) bool {
	if whole {
		return p.leadsTo(e, b)
	}
	return p.leadsOn(e, b)
}

// leadsTo reports whether an entry covers the URL that is all there is.
func (p *Policy) leadsTo(e *entry, b beginning) bool {
	u, f := parseURL(b.text, false)
	return f == nil && p.leads(e, &question{url: u, pathForm: checkPath(u.Path), bit: b.methods})
}

// leadsOn reports whether an entry may cover a URL that begins so.
func (p *Policy) leadsOn(e *entry, b beginning) bool {
	switch {
	case e.methods&b.methods == 0:
		return false
	case b.scheme == "":
		return true
	case e.Scheme != "" && e.Scheme != b.scheme:
		return false
	case !b.closed:
		return e.mayHold(b.authority)
	}
	u, f := splitURL(b.scheme + "://" + b.authority)
	if f != nil {
		return false
	}
	path, _, fixed := strings.Cut(b.rest, "?")
	q := question{url: u, bit: b.methods}
	q.url.Path, q.pathForm = e.further(path, fixed)
	return p.leads(e, &q)
}

// further is a path that begins with what is known of one and is the entry's, if there
// is such a path, and what is wrong with the part that is known.
func (e *entry) further(path string, fixed bool) (string, denial) {
	if path == "" {
		path = "/" // the query follows the host
	}
	whole := path
	if !fixed { // the segment that has begun may become any other
		whole = path[:strings.LastIndexByte(path, '/')+1]
	}
	if badEscape(whole) >= 0 {
		return path, deniedEscape
	}
	f := checkPath(whole)
	if !fixed {
		if i := strings.LastIndexByte(path, '%'); i > 0 && i >= len(path)-2 {
			path = path[:i] // the escape that has begun as well
		}
		if len(path) < len(e.Path) && sameWritten(path, e.Path[:len(path)]) {
			path = e.Path
		}
	}
	return path, f
}

// mayHold reports whether an entry's host and port may be what an authority
// becomes that has begun so, or that ends here.
func (e *entry) mayHold(s string) bool {
	if strings.HasPrefix(s, "[") { // one address has many spellings
		return e.Any || strings.Contains(e.Host, ":")
	}
	host, port, hasPort := strings.Cut(s, ":")
	for i := range len(host) {
		if !hostByte(host[i]) && host[i] != '.' {
			return false
		}
	}
	if hasPort {
		name, _, odd, bad := parseHost(host)
		return odd == nil && bad == nil && e.coversHost(name) && e.mayListen(port)
	}
	switch {
	case e.Any, e.Host[0] == '.', s == "":
		return true
	case strings.Contains(e.Host, ":"):
		return false
	default:
		return len(host) <= len(e.Host) && equalLower(host, e.Host[:len(host)])
	}
}

// mayListen reports whether an entry's port may begin with these digits.
func (e *entry) mayListen(digits string) bool {
	switch {
	case e.Port != 0:
		return strings.HasPrefix(strconv.Itoa(int(e.Port)), digits)
	case e.Any:
		return slices.ContainsFunc([]string{"80", "443"}, func(port string) bool { return strings.HasPrefix(port, digits) })
	default:
		_, ok := parsePort(digits)
		return ok || digits == ""
	}
}
