package guard

import (
	"slices"

	"weir/internal/policy"
	"weir/internal/policy/evaluate"
	"weir/internal/traffic"
	"weir/schemas"
)

// Pass is the permission to make one call. Only Guard makes a valid one; everything that sends
// refuses the zero Pass. It is a pointer wide: every step of a call has it, and its content never
// changes.
type Pass struct{ *grant }

type grant struct {
	under    *policy.Policy
	permit   policy.Permit
	decision schemas.Decision
	call     schemas.HTTPCall // as the rules leave it, with the key that is sent
	derived  string           // that key if the entry derived it; empty: it is the call's own
	scope    evaluate.Scope
	class    schemas.Class
	added    policy.Added
	own      []schemas.Header // the caller's own credentials, whether they are sent or not
	shaping
	hop bool
}

// asked is the part of a call that the rules may have changed, as it was before.
type asked struct {
	url     string
	headers []schemas.Header
}

// Valid reports whether a Guard made the pass. No other method of an invalid one may be called.
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

// Decision is what policy said.
func (p Pass) Decision() schemas.Decision { return p.decision }

// Tenant is whose call it is.
func (p Pass) Tenant() string { return p.scope.Tenant }

// Call is the evaluated call, as the traffic rules leave it, with the key that is sent. It must not
// be changed.
func (p Pass) Call() *schemas.HTTPCall { return &p.call }

// DerivedKey is the key in Call if Weir has derived it.
func (p Pass) DerivedKey() string { return p.derived }

// KeyHeader is the header that carries the key in Call.
func (p Pass) KeyHeader() string { return p.permit.KeyHeader() }

// Contract is the delivery contract of the call's entry.
func (p Pass) Contract() policy.Contract { return p.permit.Contract() }

// keyed is the call with no key but its own.
func (p Pass) keyed() schemas.HTTPCall {
	c := p.call
	if p.derived != "" {
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

// Mocked reports whether a traffic rule answers for the target, and nothing is sent: see Effect.
func (p Pass) Mocked() bool { return p.effect.Mock != "" }

// Effect is what the rules make of the call. It is not to be changed.
func (p Pass) Effect() *traffic.Effect { return &p.effect }

// Replaced is closed when other rules take effect than the evaluated ones; nil without rules.
func (p Pass) Replaced() <-chan struct{} { return p.replaced }

// RuleTypes are the types of the rules that have an effect on the call.
func (p Pass) RuleTypes() []string {
	if len(p.effect.Rules) == 0 {
		return nil
	}
	var types []string
	add := func(name string, has bool) {
		if has {
			types = append(types, name)
		}
	}
	add(schemas.RuleMock, p.Mocked())
	add(schemas.RuleDelay, p.effect.Delay > 0)
	add(schemas.RuleRedirect, p.effect.Redirect != "")
	add(schemas.RuleHeaders, len(p.effect.Response) > 0 || !slices.Equal(p.effect.Headers, p.asked.headers))
	return types
}

// Added is what the entry adds. A hop does not send it but has it, because its target may know the
// secrets in it.
func (p Pass) Added() policy.Added { return p.added }

// Traced reports whether the entry sends the call's span to the target.
func (p Pass) Traced() bool {
	for name, value := range p.added.Headers {
		if policy.IsTrace(name, value) {
			return true
		}
	}
	return false
}

// Credentials are the headers with the caller's own credentials. A call to another origin does not
// send them; its answer is redacted anyway.
func (p Pass) Credentials() []schemas.Header { return p.own }

// Class is what may be done if the call's result is lost.
func (p Pass) Class() schemas.Class { return p.class }

// IsRedirect reports whether this call follows a redirect: it carries no credentials.
func (p Pass) IsRedirect() bool { return p.hop }
