package policy

import (
	"slices"
	"strconv"
	"strings"

	"weir/schemas"
)

// Reaches reports whether a call could be permitted whose URL begins with prefix, or equals it if
// whole is set, with a method; an empty method means any. It serves programs that prepare URLs for
// later calls. False is certain under this policy. True is not a decision: Decide and the Permit
// check the rest of the URL, headers, body, the entry that a key names and the addresses of a name.
// Shadow entries and agents' entries never match.
func (p *Policy) Reaches(method, prefix string, whole bool) bool {
	b, ok := begin(prefix, reached(method))
	if p == nil || !ok {
		return false
	}
	return slices.ContainsFunc(p.enforced.entries, p.reach(b, whole))
}

// AgentReaches is Reaches for calls to agents, by their entries alone. Where agents
// are is not public: a host that has begun may become any of theirs, so that no
// caller finds one out letter by letter. Entries of models lead nowhere.
func (p *Policy) AgentReaches(method, prefix string, whole bool) bool {
	b, ok := begin(prefix, reached(method))
	if p == nil || !ok {
		return false
	}
	leads := p.reach(b, whole)
	if !whole && !b.closed {
		leads = func(e *entry) bool { return e.methods&b.methods != 0 }
	}
	return slices.ContainsFunc(p.agents.entries, func(e *entry) bool {
		return strings.HasPrefix(e.Name, schemas.AgentEntryPrefix) && leads(e)
	})
}

// reached are the methods that one stands for; all where it is empty.
func reached(method string) methods {
	if method == "" {
		return methodsAll
	}
	_, bit := parseMethod(method)
	return bit
}

// reach is what tells whether an entry leads where a URL begins so, or to the URL.
func (p *Policy) reach(b beginning, whole bool) func(*entry) bool {
	if whole {
		return func(e *entry) bool { return p.leadsTo(e, b) }
	}
	return func(e *entry) bool { return p.leadsOn(e, b) }
}

// beginning is how a URL begins.
type beginning struct {
	text    string
	methods methods
	// scheme is empty if the text ends before the scheme does. authority follows the scheme and its
	// slashes; closed says that more follows it: rest.
	scheme    string
	authority string
	closed    bool
	rest      string
}

// begin is false for what no URL begins with that Decide might permit.
func begin(text string, m methods) (beginning, bool) {
	b := beginning{text: text, methods: m}
	for i := range len(text) {
		if !urlByte(text[i]) {
			return b, false
		}
	}
	for _, scheme := range []string{schemeHTTP, schemeHTTPS} {
		head := scheme + "://"
		if len(text) < len(head) || !equalLower(text[:len(head)], head) {
			continue
		}
		b.scheme, b.authority = scheme, text[len(head):]
		if i := strings.IndexAny(b.authority, "/?"); i >= 0 {
			b.authority, b.rest, b.closed = b.authority[:i], b.authority[i:], true
		}
		return b, len(text) <= MaxURL
	}
	return b, b.inScheme(schemeHTTP) || b.inScheme(schemeHTTPS)
}

// inScheme reports whether the text ends before the slashes behind a scheme do.
func (b beginning) inScheme(scheme string) bool {
	head := scheme + "://"
	return len(b.text) < len(head) && equalLower(b.text, head[:len(b.text)])
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
		return e.Scheme == "" && (b.inScheme(schemeHTTP) || b.inScheme(schemeHTTPS)) || e.Scheme != "" && b.inScheme(e.Scheme)
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
