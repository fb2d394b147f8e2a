// Package guard asks policy about one call, right before it is made, and hands
// out the Pass without which nothing can be sent.
package guard

import (
	"weir/internal/policy"
	"weir/schemas"
)

// Pass is the permission to make one call. Only Guard makes one that is valid;
// the zero Pass is refused by everything that sends.
type Pass struct {
	permit   policy.Permit
	decision schemas.Decision
	call     schemas.HTTPCall
	class    schemas.Class
	headers  map[string]string
	hop      bool
	valid    bool
}

// Valid reports whether the pass was given by a Guard.
func (p Pass) Valid() bool { return p.valid }

// Permit is what policy matched, and so what will be sent.
func (p Pass) Permit() policy.Permit { return p.permit }

// Decision is what policy said.
func (p Pass) Decision() schemas.Decision { return p.decision }

// Call is the call that was asked about.
func (p Pass) Call() schemas.HTTPCall { return p.call }

// Headers are what the entry adds, with their placeholders. A hop sends none of
// them, and has them all the same: what it leads to may know their secrets.
func (p Pass) Headers() map[string]string { return p.headers }

// Class is what may be done if the call's result is lost.
func (p Pass) Class() schemas.Class { return p.class }

// Hop reports whether this call follows a redirect: it carries no credentials.
func (p Pass) Hop() bool { return p.hop }

// Guard decides by the policy in force at the moment of the question.
type Guard struct {
	policy func() *policy.Policy
}

// New returns a guard that reads the policy in force from current.
func New(current func() *policy.Policy) *Guard { return &Guard{policy: current} }

// Check asks about a call. With keyRequired, a call without allowlist key is
// denied. The Pass is valid only if the decision allows.
func (g *Guard) Check(call schemas.HTTPCall, keyRequired bool) (Pass, schemas.Decision) {
	d := g.policy().Decide(Request(call, keyRequired))
	permit, ok := d.Permit()
	if !ok {
		return Pass{}, d.Decision
	}
	class := policy.Class(call.Method, call.IdempotencyKey != "", permit)
	return Pass{permit: permit, decision: d.Decision, call: call, class: class, headers: permit.Headers(), valid: true}, d.Decision
}

// Hop asks about following a redirect that answered p's call. The hop carries
// the call's own headers but no body and no credentials of the entry's.
func (g *Guard) Hop(p Pass, location string, status, hop int) (Pass, schemas.Decision) {
	d := p.permit.Hop(location, status, hop)
	permit, ok := d.Permit()
	if !ok {
		return Pass{}, d.Decision
	}
	call := p.call
	call.URL, call.Body = permit.URL(), nil
	return Pass{permit: permit, decision: d.Decision, call: call, class: p.class, headers: p.headers, hop: true, valid: true}, d.Decision
}

// Request is a call in policy's words.
func Request(call schemas.HTTPCall, keyRequired bool) policy.Request {
	return policy.Request{
		Key: call.AllowlistKey, KeyRequired: keyRequired,
		Method: call.Method, URL: call.URL, Headers: call.Headers, IdempotencyKey: call.IdempotencyKey,
		// A plan's URL keeps its fragment for the report; it never goes out.
		DropFragment: keyRequired,
		HasBody:      call.Body != nil, BodySize: len(call.Body),
	}
}
