package policy

// Renew asks p again about what old permitted, perhaps under another policy.
// Where old is p's own it permits the same, and says nothing of shadow entries a
// second time. The call itself is decided anew from r; a redirect's hop by the
// entry of the same name, which must still follow so many hops, cover the URL and
// leave the caller's headers alone. What is permitted may differ from old (in
// its entry, its network, its headers): go by the new Permit alone. The zero
// Permit is not renewed.
func (p *Policy) Renew(old Permit, r Request) Decision {
	switch {
	case p == nil:
		return deny(nil, nil, flawNoPolicy)
	case !old.Valid():
		return deny(p, nil, flawNoPermit)
	case old.policy == p:
		return p.allow(old)
	case old.hop == 0:
		return p.Decide(r)
	}
	e := p.successor(old.entry)
	if e == nil || !r.usable(e) {
		return deny(p, nil, flawRedirectRevoked)
	}
	q := question{url: parts{target: old.target}, pathForm: checkPath(old.target.path)}
	q.method, q.bit = parseMethod(old.method)
	var f flaw
	switch {
	case e.redirects == 0:
		f = flawRedirectOff
	case old.hop > e.redirects:
		f = flawRedirectLimit
	case !p.leads(e, &q), checkHeaders(e, r.Headers) != nil:
		f = flawRedirectRevoked
	}
	if f != nil {
		return deny(p, e, f)
	}
	return p.allow(Permit{policy: p, entry: e, target: old.target, method: old.method, hop: old.hop})
}

// successor is p's enforced entry of the same name and kind.
func (p *Policy) successor(old *entry) *entry {
	switch {
	case old.agent:
		return p.agents.byName[old.name]
	case !old.item:
		return p.enforced.byName[old.name]
	}
	for _, e := range p.enforced.entries {
		if e.item && e.name == old.name {
			return e
		}
	}
	return nil
}
