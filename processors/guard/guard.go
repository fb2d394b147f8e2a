// Package guard asks policy about one call, right before it is made, and hands
// out the Pass without which nothing can be sent. A Pass is good for as long as
// the policy that gave it: whoever holds one for any time asks again.
package guard

import (
	"weir/internal/policy"
	"weir/schemas"
)

// Scope bounds what a call may use, beyond what the call itself names.
type Scope struct {
	// KeyRequired: a call without allowlist key is denied.
	KeyRequired bool
	// Only are the entries that the asker may use; empty: all of them.
	Only []string
	// Agent: the call is one that Weir makes to a remote agent. It goes by the
	// agents' entries, which no other call can use.
	Agent bool
}

// Pass is the permission to make one call. Only Guard makes one that is valid;
// the zero Pass is refused by everything that sends.
type Pass struct {
	under    *policy.Policy
	permit   policy.Permit
	decision schemas.Decision
	call     schemas.HTTPCall
	scope    Scope
	class    schemas.Class
	added    added
	hop      bool
	valid    bool
}

// added is what an entry adds to a call, with its placeholders.
type added struct{ headers, query, body map[string]string }

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
func (p Pass) Headers() map[string]string { return p.added.headers }

// Query are the parameters that the entry adds, on the same terms as Headers.
func (p Pass) Query() map[string]string { return p.added.query }

// Body are the members that the entry adds to a JSON object in the body, on the
// same terms as Headers.
func (p Pass) Body() map[string]string { return p.added.body }

// Class is what may be done if the call's result is lost.
func (p Pass) Class() schemas.Class { return p.class }

// Hop reports whether this call follows a redirect: it carries no credentials.
func (p Pass) Hop() bool { return p.hop }

// SamePolicy reports whether one policy gave both passes.
func (p Pass) SamePolicy(other Pass) bool { return p.under == other.under }

// Guard decides by the policy in force at the moment of the question. It is
// safe for concurrent use.
type Guard struct {
	policy func() *policy.Policy
	gate   gate
}

// New returns a guard that reads the policy in force from current.
func New(current func() *policy.Policy) *Guard { return &Guard{policy: current} }

// Check asks about a call. The Pass is valid only if the decision allows.
func (g *Guard) Check(call schemas.HTTPCall, s Scope) (Pass, schemas.Decision) {
	current := g.policy()
	d := current.Decide(Request(call, s))
	permit, ok := d.Permit()
	if !ok {
		return Pass{}, d.Decision
	}
	return pass(current, permit, d.Decision, call, s), d.Decision
}

func pass(under *policy.Policy, permit policy.Permit, d schemas.Decision, call schemas.HTTPCall, s Scope) Pass {
	return Pass{
		under: under, permit: permit, decision: d, call: call, scope: s,
		class: policy.Class(call.Method, call.IdempotencyKey != "", permit),
		added: added{permit.Headers(), permit.Query(), permit.Body()}, valid: true,
	}
}

// Renew asks about p's call again if another policy is in force than the one
// that gave p; if not, it gives p back. The fresh Pass may go by another entry,
// send other credentials and be of another class.
func (g *Guard) Renew(p Pass) (Pass, schemas.Decision) {
	current := g.policy()
	if !p.valid || current == p.under {
		return p, p.decision
	}
	d := current.Renew(p.permit, Request(p.call, p.scope))
	permit, ok := d.Permit()
	if !ok {
		return Pass{}, d.Decision
	}
	if p.hop { // it sends nothing of the entry's, and must still know what was sent before it
		p.under, p.permit, p.decision = current, permit, d.Decision
		return p, d.Decision
	}
	return pass(current, permit, d.Decision, p.call, p.scope), d.Decision
}

// Hop asks about following a redirect that answered p's call, by the policy in
// force now. The hop carries the call's own headers but no body and no
// credentials of the entry's.
func (g *Guard) Hop(p Pass, location string, status, hop int) (Pass, schemas.Decision) {
	fresh, d := g.Renew(p)
	if !fresh.valid {
		return Pass{}, d
	}
	next := fresh.permit.Hop(location, status, hop)
	permit, ok := next.Permit()
	if !ok {
		return Pass{}, next.Decision
	}
	call := p.call
	call.URL, call.Body, call.TextBody = permit.URL(), nil, false
	return Pass{
		under: fresh.under, permit: permit, decision: next.Decision, call: call, scope: p.scope,
		class: p.class, added: p.added, hop: true, valid: true,
	}, next.Decision
}

// Request is a call in policy's words.
func Request(call schemas.HTTPCall, s Scope) policy.Request {
	return policy.Request{
		Key: call.AllowlistKey, KeyRequired: s.KeyRequired, Only: s.Only, Agent: s.Agent,
		Method: call.Method, URL: call.URL, Headers: call.Headers, IdempotencyKey: call.IdempotencyKey,
		// A plan's URL keeps its fragment for the report; it never goes out.
		DropFragment: s.KeyRequired,
		HasBody:      call.Body != nil, BodySize: len(call.Body), Body: call.Body, TextBody: call.TextBody,
	}
}
