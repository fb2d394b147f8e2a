package policy

import (
	"cmp"
	"slices"
	"strings"

	"weir/schemas"
)

// table is a list of entries that decides as one.
type table struct {
	entries []*entry // in order
	byName  map[string]*entry
}

func newTable(all []*entry, member func(*entry) bool) table {
	t := table{byName: map[string]*entry{}}
	for _, e := range all {
		if !member(e) {
			continue
		}
		t.entries = append(t.entries, e)
		if !e.item {
			t.byName[e.Name] = e
		}
	}
	return t
}

// question is a request as the entries are asked about it: parsed once, however
// many are asked.
//
// The request itself is handed along beside it: a pointer to it in here would
// move it to the heap.
type question struct {
	url      parts
	urlForm  denial // where it is set, nothing else of the URL is
	method   string
	bit      methods
	pathForm denial
	connect  bool // a CONNECT, which has no scheme, no path and no headers
}

func ask(r *Request) question {
	if r.Connect {
		return askConnect(r.URL)
	}
	var q question
	if q.url, q.urlForm = parseURL(r.URL, r.DropFragment); q.urlForm == nil {
		q.pathForm = checkPath(q.url.Path)
	}
	q.method, q.bit = parseMethod(r.Method)
	return q
}

// usable reports whether the caller may use e, and so may know of it.
func (r *Request) usable(e *entry) bool {
	return len(r.Only) == 0 || (!e.item && slices.Contains(r.Only, e.Name))
}

// tableOf is the table that decides about a request.
func (p *Policy) tableOf(r *Request) *table {
	if r.Agent {
		return &p.agents
	}
	return &p.enforced
}

// evaluate returns the entry that the request is for and the check that failed.
func (p *Policy) evaluate(t *table, q *question, r *Request) (*entry, denial) {
	e, f := p.selected(t, r)
	switch {
	case f != nil:
		return nil, f
	case e != nil:
		return e, p.checkEntry(e, q, r)
	case q.urlForm != nil:
		return nil, q.urlForm
	}
	if e, f = p.choose(t, q, r); f == nil {
		f = p.admits(e, q, r)
	}
	return e, f
}

// checkEntry checks the whole request against one entry.
func (p *Policy) checkEntry(e *entry, q *question, r *Request) denial {
	if q.urlForm != nil {
		return q.urlForm
	}
	if f := e.fits(q); f != nil {
		return f
	}
	return p.admits(e, q, r)
}

// selected gives the entry that the key names; nil where there is no key and
// none is needed.
func (p *Policy) selected(t *table, r *Request) (*entry, denial) {
	if r.Key == "" {
		if r.keyed() {
			return nil, deniedKeyMissing
		}
		return nil, nil
	}
	// The same denial whether such an entry exists or not.
	if len(r.Only) > 0 && !slices.Contains(r.Only, r.Key) {
		return nil, deniedKeyNotYours
	}
	if e := t.byName[r.Key]; e != nil {
		return e, nil
	}
	switch {
	case r.Agent:
	case strings.HasPrefix(r.Key, schemas.AgentEntryPrefix):
		return nil, deniedKeyAgent
	case strings.HasPrefix(r.Key, schemas.ModelEntryPrefix):
		return nil, deniedKeyModel
	case p.rehearsal != nil && p.rehearsal.byName[r.Key] != nil:
		return nil, deniedKeyShadow
	}
	return nil, deniedKeyUnknown
}

// choose gives the first entry that fits. One that fits but for the address,
// which is known for literals, gives way to a later one that fits entirely.
// If none fits, the denial comes from the entry that got furthest, among those that cover the host.
func (p *Policy) choose(t *table, q *question, r *Request) (*entry, denial) {
	var near *entry
	nearest, furthest := deniedHostNone, CheckKey
	limited := len(r.Only) > 0
	for _, e := range t.entries {
		if limited && !r.usable(e) {
			continue
		}
		f := e.fits(q)
		if f == nil {
			if p.checkTarget(e, &q.url.target) == nil {
				return e, nil
			}
			if furthest != CheckAddress {
				near, nearest, furthest = e, nil, CheckAddress
			}
			continue
		}
		if f == nearest || f == deniedHost || f == deniedScheme && q.url.hostForm == nil && !e.coversHost(q.url.Host) {
			continue // most entries fail alike, or are for another host
		}
		if check := f.Check; check > furthest {
			near, nearest, furthest = e, f, check
		}
	}
	if nearest == deniedHostNone {
		switch {
		case p.network(&q.url.target) == "":
			nearest = deniedHostNever
		case !limited && p.loopback(&q.url.target):
			nearest = deniedHostLoopback
		}
	}
	switch { // an entry that the caller may not use may permit it
	case limited && nearest == deniedHostNone:
		nearest = deniedHostLimited
	case limited && nearest == deniedPort:
		nearest = deniedPortLimited
	}
	if furthest <= CheckHost {
		near = nil // the request belongs to no entry
	}
	return near, nearest
}

// admits checks a request with a matching URL and method against the rest of the entry: the entry's
// own additions, the headers and parameters closed to the caller, and the address.
func (p *Policy) admits(e *entry, q *question, r *Request) denial {
	if q.connect {
		return p.checkTarget(e, &q.url.target)
	}
	return cmp.Or(
		checkQuery(e, q.url.Query),
		checkCallerQuery(e, q, r),
		checkHeaders(e, r.Headers),
		checkKey(e, q.bit, r.IdempotencyKey),
		p.checkBody(q.bit, r),
		checkMembers(e, q.bit, r),
		p.checkTarget(e, &q.url.target),
	)
}
