package policy

import "weir/schemas"

// Explain decides and explains a request, which is a CONNECT if its method says so: which check denied, what would make the request pass, and the
// verdict of every entry, including shadow entries. An entry's verdict is the one it would give if
// the request named it. Entries that the caller may not use and agents' entries are omitted, and so
// are the allowed hosts if the request has a key. A request to an agent is explained as an ordinary
// one. Like Decide it makes no DNS request.
//
// The remedy may repeat the request's host, method and header names, so it is for the caller and
// not for a log. It never contains values that the worker adds.
func (p *Policy) Explain(r Request) schemas.Explanation {
	r.Agent, r.Connect = false, equalLower(r.Method, "connect")
	d := p.Decide(r)
	x := schemas.Explanation{Decision: d.Decision, Entries: []schemas.EntryVerdict{}}
	if !d.Allowed {
		x.Check = d.Check.String()
	}
	if p == nil {
		return x
	}
	if permit, ok := d.Permit(); ok && !r.Connect {
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
func (p *Policy) hold(e *entry, q *question, r *Request) denial {
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
