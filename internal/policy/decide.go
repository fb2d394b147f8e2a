package policy

import (
	"cmp"
	"slices"
	"strings"

	"weir/schemas"
)

const (
	// defaultMaxBody is the default of Config.MaxBody.
	defaultMaxBody = 1 << 20
	// maxOwnBody is the limit of a call to an agent or a model, whose body came whole through the
	// ingress, which has limits of its own; with room for what Weir adds.
	maxOwnBody = 64<<20 + 1<<20
	maxDepth   = 64
)

// Decision is what policy said of one request. The zero Decision denies.
type Decision struct {
	schemas.Decision

	// Check is the one that denied; CheckNone where the request is allowed.
	Check  Check
	permit Permit
}

// Permit gives what the decision permits. It is false, and the Permit refuses
// everything, unless Decide or Redirect allowed the request.
func (d Decision) Permit() (Permit, bool) {
	if !d.Allowed || !d.permit.Valid() {
		return Permit{}, false
	}
	return d.permit, true
}

// Decide checks a request, in this order: key, URL, scheme, userinfo, host,
// port, method, path, the entry's own parameters of the query (as a flaw of the
// URL), headers, body, address. It asks no DNS: the addresses of a name are
// checked by the Permit, by the same rule.
//
// Where there are shadow entries it checks twice, and Shadow says what a policy
// that enforces them would have said, if that is something else. The addresses
// of names are not part of that rehearsal, and neither are redirects.
func (p *Policy) Decide(r Request) Decision {
	if p == nil {
		return deny(nil, nil, deniedNoPolicy)
	}
	q := ask(&r)
	d := p.conclude(p.tableOf(&r), &q, &r)
	if p.rehearsal != nil && !r.Agent {
		d.Shadow = d.compare(p.conclude(p.rehearsal, &q, &r))
	}
	return d
}

func (p *Policy) conclude(t *table, q *question, r *Request) Decision {
	e, f := p.evaluate(t, q, r)
	if f != nil {
		return deny(p, e, f)
	}
	return p.allow(Permit{policy: p, entry: e, target: q.url.target, method: q.method})
}

// compare returns the shadow decision if it differs.
func (d Decision) compare(rehearsed Decision) *schemas.Shadow {
	if d.Allowed == rehearsed.Allowed && d.Code == rehearsed.Code && d.Entry == rehearsed.Entry {
		return nil
	}
	return &schemas.Shadow{Allowed: rehearsed.Allowed, Code: rehearsed.Code, Reason: rehearsed.Reason, Entry: rehearsed.Entry}
}

func (p *Policy) checkBody(method string, r *Request) denial {
	limit := p.maxBody
	switch {
	case r.Agent:
		limit = maxOwnBody
	case r.Upload:
		limit = p.maxUpload
	}
	switch {
	case !r.HasBody:
		return nil
	case bare(method):
		return deniedBodyMethod
	case r.BodySize > limit:
		return deniedBodySize
	case r.BodyDepth > maxDepth:
		return deniedBodyDepth
	}
	return nil
}

// deny names the entry if the entry issued the request itself.
func deny(p *Policy, e *entry, f denial) Decision {
	d := Decision{Check: f.Check, Decision: schemas.Decision{Code: f.Code, Reason: f.Reason, Version: p.Version()}}
	if e != nil {
		d.Entry = e.Name
	}
	return d
}

func (p *Policy) allow(permit Permit) Decision {
	return Decision{
		Decision: schemas.Decision{Allowed: true, Entry: permit.entry.Name, Version: p.version},
		permit:   permit,
	}
}

// Class says what may be done with a call whose result is lost. A key makes a
// POST or PATCH repeatable only where the entry says that its target honours
// it. The method is in upper case; an unknown one is never repeated, and
// neither is one under the zero Permit where the entry matters.
func Class(method string, hasKey bool, p Permit) schemas.Class {
	switch method {
	case "GET", "HEAD", "OPTIONS":
		return schemas.ClassSafe
	case "PUT", "DELETE":
		return schemas.ClassIdempotent
	case "POST", "PATCH":
		if _, honoured := p.IdempotencyTTL(); hasKey && honoured {
			return schemas.ClassKeyed
		}
	}
	return schemas.ClassOnce
}

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
	method   string // empty: it is never sent
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
	q.method = parseMethod(r.Method)
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
		checkToken(q),
		checkQuery(e, q.url.Query),
		checkCallerQuery(e, q, r),
		checkCoding(r),
		checkHeaders(e, r.Headers),
		checkKey(e, q.method, r.IdempotencyKey),
		p.checkBody(q.method, r),
		checkMembers(e, q.method, r),
		p.checkTarget(e, &q.url.target),
	)
}

// parseMethod gives the canonical name of a method in any case; empty: it is never sent. It
// folds ASCII alone.
func parseMethod(s string) string {
	for _, name := range schemas.Methods() {
		if len(s) == len(name) && strings.EqualFold(s, name) {
			return name
		}
	}
	return ""
}
