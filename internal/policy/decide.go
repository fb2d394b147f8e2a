package policy

import (
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

func (p *Policy) checkBody(method methods, r *Request) denial {
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
	case method&(methodGET|methodHEAD) != 0:
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
