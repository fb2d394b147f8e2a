// Package guard evaluates one call right before it is made: first the tenant's traffic rules, then
// policy on the result. It issues the Pass that every call needs. A Pass is only valid under the
// policy and rules that issued it: after any wait, evaluate again.
package guard

import (
	"context"
	"sync"

	"weir/internal/policy"
	"weir/internal/policy/evaluate"
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
	n := &grant{under: current, call: shaped, scope: s, own: evaluate.Credentials(call.Headers), shaping: sh}
	return n.permitted(d)
}

// Connect evaluates a CONNECT to host:port. No traffic rule changes it, but a rule that decides where
// calls to host:port go denies a tunnel that hides them. The Pass opens a tunnel, and sends no
// request.
func (g *Guard) Connect(authority string, s evaluate.Scope) (Pass, schemas.Decision) {
	current := g.policy()
	s.Connect = true
	call := schemas.HTTPCall{Method: policy.MethodConnect, URL: authority}
	n := &grant{under: current, call: call, scope: s}
	n.effect.Headers, n.asked.url, n.lasting = call.Headers, call.URL, true
	p, d := n.permitted(current.Decide(evaluate.Request(call, s)))
	if !p.Valid() {
		return p, d
	}
	if d.Reason = g.Bypassed(p); d.Reason != "" {
		d.Allowed, d.Code = false, schemas.DenyRule
		return Pass{}, d
	}
	return p, d
}

// permitted is the Pass of a grant if a decision permits its call. A hop sends no values of the
// entry's, and must still know what was sent before it.
func (n *grant) permitted(d policy.Decision) (Pass, schemas.Decision) {
	permit, ok := d.Permit()
	if !ok {
		return Pass{}, d.Decision
	}
	if n.permit, n.decision = permit, d.Decision; !n.hop {
		if n.call.IdempotencyKey == "" && n.scope.Key != nil && permit.DerivesKey() {
			n.derived = n.scope.Key()
			n.call.IdempotencyKey = n.derived
		}
		n.class, n.added = policy.Class(n.call.Method, n.call.IdempotencyKey != "", permit), permit.Added()
	}
	return Pass{n}, d.Decision
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
	next := *p.grant
	if next.under = current; !p.hop {
		next.call, next.derived = p.keyed(), ""
	}
	return next.permitted(d)
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
	n := &grant{
		under: fresh.under, call: shaped, scope: p.scope, class: p.class, added: p.added, own: p.own, hop: true, shaping: sh,
	}
	return n.permitted(next)
}

// Begin is Renew at the last moment: a permitted call must begin at once. Call leave when its first
// byte is sent or the call is given up; repeated calls are allowed. A call reads a secret and waits
// for the scheduler between the last policy check and its first byte: see Settle.
func (g *Guard) Begin(p Pass) (fresh Pass, d schemas.Decision, leave func()) {
	left := make(chan struct{})
	g.starting.Store(left, nil) // before the policy is read
	fresh, d = g.Renew(p)
	return fresh, d, sync.OnceFunc(func() {
		g.starting.Delete(left)
		close(left)
	})
}

// Settle returns when every call that Begin permitted under a former policy has started or was
// given up. Call it after the policy was exchanged: from then on no call starts that the new one
// denies. New calls do not wait for it.
func (g *Guard) Settle(ctx context.Context) error {
	var earlier []chan struct{}
	g.starting.Range(func(key, _ any) bool {
		left, ok := key.(chan struct{})
		earlier = append(earlier, left)
		return ok
	})
	for _, left := range earlier {
		select {
		case <-left:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
