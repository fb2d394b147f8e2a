package policy

import "weir/schemas"

// Explain decides and says why: which check denied, what would make the request
// pass, and what every entry says of it, shadow ones too. An entry's verdict is
// what it would say if the request named it; what the asker may not use, with a
// key the allowed hosts, and agents' entries are left out. What a request to an
// agent would be told is not explained: it is taken for an ordinary one. Like
// Decide it asks no DNS.
//
// The remedy may repeat the request's host, method and header names, so it is
// for the asker's eyes and not for a log. Values of what the worker adds stand
// nowhere in it.
func (p *Policy) Explain(r Request) schemas.Explanation {
	r.Agent = false
	d := p.Decide(r)
	x := schemas.Explanation{Decision: d.Decision, Entries: []schemas.EntryVerdict{}}
	if !d.Allowed {
		x.Check = d.Check.String()
	}
	if p == nil {
		return x
	}
	if permit, ok := d.Permit(); ok {
		x.Class = Class(permit.Method(), r.IdempotencyKey != "", permit)
	}
	q := ask(&r)
	for _, e := range p.all {
		if !r.usable(e) || (e.item && r.keyed()) {
			continue
		}
		v := schemas.EntryVerdict{Entry: e.Name, Mode: e.mode(), Fits: true}
		if f := p.hold(e, &q, &r); f != nil {
			v.Fits, v.Check, v.Reason = false, f.Check.String(), f.Reason
		}
		x.Entries = append(x.Entries, v)
	}
	if !d.Allowed {
		e, f := p.judge(&p.enforced, &q, &r)
		x.Remedy = (&remedy{policy: p, entry: e, q: &q, r: &r}).of(f)
	}
	return x
}

// keyed reports whether one entry is asked for by name.
func (r *Request) keyed() bool { return r.Key != "" || r.KeyRequired || r.Agent }

// hold asks one entry about the whole request.
func (p *Policy) hold(e *entry, q *question, r *Request) flaw {
	if q.urlForm != nil {
		return q.urlForm
	}
	if f := e.fits(q); f != nil {
		return f
	}
	return p.admits(e, q, r)
}

func (e *entry) mode() string {
	if e.Shadow {
		return ModeShadow
	}
	return ModeEnforce
}
