package policy

import "weir/schemas"

const (
	maxBody  = 1 << 20
	maxDepth = 64
)

// Decision is what policy said of one request. The zero Decision denies.
type Decision struct {
	schemas.Decision

	// Check is the one that denied; CheckNone where the request is allowed.
	Check  Check
	permit Permit
}

// Permit gives what the decision permits. It is false, and the Permit refuses
// everything, unless Decide or Hop allowed the request.
func (d Decision) Permit() (Permit, bool) {
	if !d.Allowed || !d.permit.Valid() {
		return Permit{}, false
	}
	return d.permit, true
}

// question is a request as the entries are asked about it.
type question struct {
	url      parts
	method   string
	bit      methods
	pathForm flaw
}

// Decide judges a request, in this order: key, URL, scheme, userinfo, host,
// port, method, path, headers, body, address. It asks no DNS: the addresses of
// a name are judged by the Permit, by the same rule.
func (p *Policy) Decide(r Request) Decision {
	if p == nil {
		return deny(nil, nil, flawNoPolicy)
	}
	var e *entry
	if r.Key != "" || r.KeyRequired {
		if r.Key == "" {
			return deny(p, nil, flawKeyMissing)
		}
		if e = p.byName[r.Key]; e == nil {
			return deny(p, nil, flawKeyUnknown)
		}
	}
	q := question{}
	var f flaw
	if q.url, f = parseURL(r.URL, r.DropFragment); f != flawNone {
		return deny(p, e, f)
	}
	q.method, q.bit = parseMethod(r.Method)
	q.pathForm = checkPath(q.url.path)

	if e == nil {
		e, f = p.choose(&q)
	} else {
		f = e.fits(&q)
	}
	if f == flawNone {
		f = checkHeaders(e, r.Headers)
	}
	if f == flawNone {
		f = checkKey(r.IdempotencyKey)
	}
	if f == flawNone {
		f = checkBody(q.bit, &r)
	}
	if f == flawNone {
		f = p.checkTarget(e, &q.url.target)
	}
	if f != flawNone {
		return deny(p, e, f)
	}
	return p.allow(Permit{policy: p, entry: e, target: q.url.target, method: q.method})
}

// choose gives the first entry that fits. One that fits but for the address,
// which is known for literals, gives way to a later one that fits entirely.
// Where none fits, the flaw is that of the entry that came furthest.
func (p *Policy) choose(q *question) (*entry, flaw) {
	var near *entry
	nearest, furthest := flawHostNone, CheckKey
	for _, e := range p.entries {
		f := e.fits(q)
		if f == flawNone {
			if p.checkTarget(e, &q.url.target) == flawNone {
				return e, flawNone
			}
			if furthest != CheckAddress {
				near, nearest, furthest = e, flawNone, CheckAddress
			}
			continue
		}
		if check := f.check(); check > furthest {
			near, nearest, furthest = e, f, check
		}
	}
	if nearest == flawHost {
		nearest = flawHostNone
	}
	if furthest <= CheckHost {
		near = nil // it is nobody's request
	}
	return near, nearest
}

func checkBody(method methods, r *Request) flaw {
	switch {
	case !r.HasBody:
		return flawNone
	case method&(methodGET|methodHEAD) != 0:
		return flawBodyMethod
	case r.BodySize > maxBody:
		return flawBodySize
	case r.BodyDepth > maxDepth:
		return flawBodyDepth
	}
	return flawNone
}

// deny names the entry where the request got as far as to be one of its own.
func deny(p *Policy, e *entry, f flaw) Decision {
	check, reason := f.describe()
	d := Decision{Check: check, Decision: schemas.Decision{Code: check.Code(), Reason: reason, Version: p.Version()}}
	if e != nil {
		d.Entry = e.name
	}
	return d
}

func (p *Policy) allow(permit Permit) Decision {
	return Decision{
		Decision: schemas.Decision{Allowed: true, Entry: permit.entry.name, Version: p.version},
		permit:   permit,
	}
}
