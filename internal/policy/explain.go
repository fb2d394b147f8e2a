package policy

import (
	"strconv"

	"weir/internal/retry"
	"weir/schemas"
)

// Explain decides and explains a request, which is a CONNECT if its method says so: which check denied, what would make the request pass, and the
// verdict of every entry, including shadow entries. An entry's verdict is the one it would give if
// the request named it. Entries that the caller may not use and agents' entries are omitted, and so
// are the allowed hosts if the request has a key. A request to an agent is explained as an ordinary
// one. Like Decide it makes no DNS request.
//
// The hint may repeat the request's host, method and header names, so it is for the caller and
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
		x.Class = Class(permit.Method(), r.IdempotencyKey != "" || permit.DerivesKey(), permit)
		x.Contract = permit.explain(x.Class, r.IdempotencyKey != "")
	}
	q := ask(&r)
	for _, e := range p.all {
		if !r.usable(e) || (e.item && r.keyed()) {
			continue
		}
		v := schemas.EntryVerdict{Entry: e.Name, Mode: e.mode(), Fits: true}
		if f := p.checkEntry(e, &q, &r); f != nil {
			v.Fits, v.Check, v.Reason = false, f.Check.String(), f.Reason
		}
		x.Entries = append(x.Entries, v)
	}
	if !d.Allowed {
		e, f := p.evaluate(&p.enforced, &q, &r)
		x.Remedy = (&hint{policy: p, entry: e, q: &q, r: &r}).of(f)
	}
	return x
}

// explain is the contract of a call of a class, with or without a key of its caller's.
func (p *Permit) explain(class schemas.Class, keyed bool) *schemas.Contract {
	c, standard := p.Contract(), retry.Default()
	x := &schemas.Contract{
		Attempts: standard.Attempts, Base: standard.Base.String(), Cap: standard.Cap.String(), RetryOn: []string{},
		NeverRetry: c.NeverRetry.view(), Key: schemas.KeyNone, Probe: c.Reconcile != nil && class != schemas.ClassSafe && class != schemas.ClassIdempotent,
	}
	if c.Retry != nil {
		x.Attempts, x.Base, x.Cap = c.Retry.Attempts, c.Retry.Base.String(), c.Retry.Cap.String()
	}
	switch {
	case !class.Repeatable():
	case c.Retry == nil || c.Retry.On == nil:
		x.RetryOn = []string{"429", "5xx"}
	default:
		for _, status := range c.Retry.On {
			x.RetryOn = append(x.RetryOn, strconv.Itoa(status))
		}
	}
	switch {
	case keyed:
		x.Key = schemas.KeyCaller
	case p.DerivesKey():
		x.Key = schemas.KeyDerived
	}
	if ttl, honoured := p.IdempotencyTTL(); x.Key != schemas.KeyNone {
		x.KeyHeader = p.KeyHeader()
		if honoured {
			x.KeyTTL = ttl.String()
		}
	}
	_, bit := parseMethod(p.method)
	x.RequiresKey = c.RequiresKey && bit&methodsOnce != 0
	if c.ResponseSchema != nil {
		x.ResponseSchema = c.ResponseSchema.Mode
	}
	return x
}

// keyed reports whether the request names one entry.
func (r *Request) keyed() bool { return r.Key != "" || r.KeyRequired || r.Agent }

func (e *entry) mode() string {
	if e.Shadow {
		return ModeShadow
	}
	return ModeEnforce
}
