package policy

import "weir/schemas"

// Carry asks whether what is permitted may go with these headers of the caller's.
// Hop does not see them: it is for those that were changed behind it.
func (p Permit) Carry(headers []schemas.Header) Decision {
	if !p.Valid() {
		return deny(nil, nil, flawNoPermit)
	}
	if f := checkHeaders(p.entry, headers); f != flawNone {
		return deny(p.policy, p.entry, f)
	}
	return p.policy.allow(p)
}
