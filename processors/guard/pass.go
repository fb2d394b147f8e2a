package guard

import (
	"slices"

	"weir/internal/policy"
	"weir/internal/policy/evaluate"
	"weir/schemas"
)

// Pass is the permission to make one call. Only Guard makes a valid one; everything that sends
// refuses the zero Pass, of which nothing but Valid may be read. It is a pointer wide: every step of
// a call has it, and none changes what it holds.
type Pass struct{ *grant }

type grant struct {
	under  *policy.Policy
	permit policy.Permit
	scope  evaluate.Scope

	// Decision is what policy said.
	Decision schemas.Decision
	// Call is the evaluated call, as the traffic rules leave it, with the key that is sent.
	Call schemas.HTTPCall
	// DerivedKey is that key if the entry derived it; empty: it is the call's own.
	DerivedKey string
	// Class is what may be done if the call's result is lost.
	Class schemas.Class
	// Added is what the entry adds. A hop does not send it but has it, because its target may know the
	// secrets in it.
	Added policy.Added
	// Credentials are the headers with the caller's own credentials. A call to another origin does not
	// send them; its answer is redacted anyway.
	Credentials []schemas.Header
	// IsRedirect: this call follows a redirect, and carries no credentials.
	IsRedirect bool
	shaping
}

// asked is the part of a call that the rules may have changed, as it was before.
type asked struct {
	url     string
	headers []schemas.Header
}

// Valid reports whether a Guard made the pass.
func (p Pass) Valid() bool { return p.grant != nil }

// Permit is what policy matched, and so what will be sent. Of a call that a traffic
// rule answers for it is the zero one: there is nothing that it could be sent with.
// It must not be changed.
func (p Pass) Permit() *policy.Permit {
	if p.Mocked() {
		return new(policy.Permit)
	}
	return &p.permit
}

// Redirects is how many redirects are followed behind the call.
func (p Pass) Redirects() int { return p.permit.Redirects() }

// Leads is where a Location that answered the call leads to, in full; empty: nowhere. It
// is content.
func (p Pass) Leads(location string) string { return p.permit.Leads(location) }

// Tenant is whose call it is.
func (p Pass) Tenant() string { return p.scope.Tenant }

// KeyHeader is the header that carries the key in Call.
func (p Pass) KeyHeader() string { return p.permit.KeyHeader() }

// Contract is the delivery contract of the call's entry.
func (p Pass) Contract() policy.Contract { return p.permit.Contract() }

// keyed is the call with no key but its own.
func (p Pass) keyed() schemas.HTTPCall {
	c := p.Call
	if p.DerivedKey != "" {
		c.IdempotencyKey = ""
	}
	return c
}

// unshaped is the call before the rules.
func (p Pass) unshaped() schemas.HTTPCall {
	c := p.keyed()
	c.URL, c.Headers = p.asked.url, p.asked.headers
	return c
}

// Mocked reports whether a traffic rule answers for the target, and nothing is sent.
func (p Pass) Mocked() bool { return p.Effect.Mock != "" }

// RuleTypes are the types of the rules that have an effect on the call.
func (p Pass) RuleTypes() []string {
	if len(p.Effect.Rules) == 0 {
		return nil
	}
	var types []string
	add := func(name string, has bool) {
		if has {
			types = append(types, name)
		}
	}
	add(schemas.RuleMock, p.Mocked())
	add(schemas.RuleDelay, p.Effect.Delay > 0)
	add(schemas.RuleRedirect, p.Effect.Redirect != "")
	add(schemas.RuleHeaders, len(p.Effect.Response) > 0 || !slices.Equal(p.Effect.Headers, p.asked.headers))
	return types
}

// Traced reports whether the entry sends the call's span to the target.
func (p Pass) Traced() bool {
	for name, value := range p.Added.Headers {
		if policy.IsTrace(name, value) {
			return true
		}
	}
	return false
}

// SamePolicy reports whether one policy gave both passes.
func (p Pass) SamePolicy(other Pass) bool {
	return p.Valid() && other.Valid() && p.under == other.under
}
