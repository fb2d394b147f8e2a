// Package guard evaluates one call right before it is made: first the tenant's traffic rules, then
// policy on the result. It issues the Pass that every call needs. A Pass is only valid under the
// policy and rules that issued it: after any wait, evaluate again.
package guard

import (
	"sync"

	"weir/internal/policy"
	"weir/internal/policy/evaluate"
	"weir/internal/traffic"
	"weir/schemas"
)

// Guard decides by the rules and the policy in force at the moment of the
// question. It is safe for concurrent use.
type Guard struct {
	policy   func() *policy.Policy
	rules    Rules
	starting sync.Map // of the permitted calls that have not started: channels that close when they do
}

// New returns a guard that reads the policy in force from current, and the traffic
// rules from rules; nil: there are none.
func New(current func() *policy.Policy, rules Rules) *Guard {
	return &Guard{policy: current, rules: rules}
}

// Contract is the delivery contract of an entry in force.
func (g *Guard) Contract(entry string) policy.Contract { return g.policy().Contract(entry) }

// Check evaluates a call. The Pass is valid only if the decision allows.
func (g *Guard) Check(call schemas.HTTPCall, s evaluate.Scope) (Pass, schemas.Decision) {
	current := g.policy()
	sh, err := g.shape(call, s)
	if err != nil {
		return Pass{}, evaluate.Unreadable(current)
	}
	shaped := evaluate.Applied(sh.effect, call)
	d := evaluate.Decide(current, sh.effect, call, shaped, s)
	permit, ok := d.Permit()
	if !ok {
		return Pass{}, d.Decision
	}
	return pass(current, permit, d.Decision, shaped, s, sh, evaluate.Credentials(call.Headers)), d.Decision
}

// Connect evaluates a CONNECT to host:port. No traffic rule changes it, but a rule that decides where
// calls to host:port go denies a tunnel that hides them. The Pass opens a tunnel, and sends no
// request.
func (g *Guard) Connect(authority string, s evaluate.Scope) (Pass, schemas.Decision) {
	current := g.policy()
	s.Connect = true
	call := schemas.HTTPCall{Method: policy.MethodConnect, URL: authority}
	d := current.Decide(evaluate.Request(call, s))
	permit, ok := d.Permit()
	if !ok {
		return Pass{}, d.Decision
	}
	none := shaping{effect: traffic.Effect{Headers: call.Headers}, lasting: true, asked: asked{url: call.URL}}
	p := pass(current, permit, d.Decision, call, s, none, nil)
	if d.Reason = g.Bypassed(p); d.Reason != "" {
		d.Allowed, d.Code = false, schemas.DenyRule
		return Pass{}, d.Decision
	}
	return p, d.Decision
}

func pass(under *policy.Policy, permit policy.Permit, d schemas.Decision, call schemas.HTTPCall, s evaluate.Scope, sh shaping, own []schemas.Header) Pass {
	derived := ""
	if call.IdempotencyKey == "" && s.Key != nil && permit.DerivesKey() {
		derived = s.Key()
		call.IdempotencyKey = derived
	}
	return Pass{&grant{
		under: under, permit: permit, decision: d, call: call, derived: derived, scope: s,
		class: policy.Class(call.Method, call.IdempotencyKey != "", permit),
		added: permit.Added(), own: own, shaping: sh,
	}}
}

// Renew evaluates p's call again if another policy is in force than the one that gave p; if not, it
// returns p. The fresh Pass may use another entry, send other credentials and have another class.
// The traffic rules are not evaluated again: see Stale.
func (g *Guard) Renew(p Pass) (Pass, schemas.Decision) {
	current := g.policy()
	switch {
	case !p.Valid():
		return p, schemas.Decision{}
	case current == p.under:
		return p, p.decision
	}
	d := current.Renew(p.permit, evaluate.Request(p.keyed(), p.scope))
	if !d.Allowed && !p.hop && p.effect.Changes() && current.Decide(evaluate.Request(p.unshaped(), p.scope)).Allowed {
		d = evaluate.ByRules(d, p.effect)
	}
	d.Traffic = p.decision.Traffic
	permit, ok := d.Permit()
	switch {
	case !ok:
		return Pass{}, d.Decision
	case p.hop: // it sends no values of the entry's, and must still know what was sent before it
		next := *p.grant
		next.under, next.permit, next.decision = current, permit, d.Decision
		return Pass{&next}, d.Decision
	}
	return pass(current, permit, d.Decision, p.keyed(), p.scope, p.shaping, p.own), d.Decision
}

// Redirect evaluates a redirect that answered p's call, by the policy in force now. It carries the
// call's own headers but no body and no credentials of the entry's, and the caller's only if it
// stays at the origin. The traffic rules apply to a permitted redirect as to a call of its own, and
// policy must also permit their target.
func (g *Guard) Redirect(p Pass, location string, status, hop int) (Pass, schemas.Decision) {
	fresh, d := g.Renew(p)
	if !fresh.Valid() {
		return Pass{}, d
	}
	next := fresh.permit.Redirect(location, status, hop)
	permit, ok := next.Permit()
	call := p.unshaped()
	given := call.URL
	call.DropBody()
	call.URL = permit.URL()
	call = evaluate.Bound(call, given)
	sh, err := g.shape(call, p.scope)
	if err != nil {
		return Pass{}, evaluate.Unreadable(fresh.under)
	}
	if !ok {
		next.Traffic = evaluate.Version(sh.effect)
		return Pass{}, next.Decision
	}
	shaped := evaluate.Applied(sh.effect, call)
	next = evaluate.Redirect(fresh.under, fresh.permit, next, sh.effect, shaped, p.scope, status, hop)
	next.Traffic = evaluate.Mark(sh.effect, p.scope)
	if permit, ok = next.Permit(); !ok {
		return Pass{}, next.Decision
	}
	return Pass{&grant{
		under: fresh.under, permit: permit, decision: next.Decision, call: shaped, scope: p.scope,
		class: p.class, added: p.added, own: p.own, hop: true, shaping: sh,
	}}, next.Decision
}
