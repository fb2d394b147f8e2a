// Package evaluate evaluates a call by values alone: it applies a tenant's traffic rules, then policy
// to the result. It gives no permission to send; processors/guard does. Previews and policy tests
// use this package.
package evaluate

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/policy"
	"weir/internal/traffic"
	"weir/schemas"
)

// Scope bounds what a call may use, beyond what the call itself names, and says
// for whom it is made.
type Scope struct {
	// Tenant is whose traffic rules the call goes by.
	Tenant string
	// Facts are what the rules' own scopes are held against.
	Facts traffic.Facts
	// KeyRequired: a call without allowlist key is denied.
	KeyRequired bool
	// Only are the entries that the caller may use; empty: all of them.
	Only []string
	// Agent: the call is one that Weir makes to a remote agent. It goes by the
	// agents' entries, which no other call can use.
	Agent bool
	// Internal and Connect: see policy.Request.
	Internal, Connect bool
	// Key derives the idempotency key of a call without one, for an entry that asks for it; nil: no
	// call is sent with a derived key.
	Key func() string
}

// Request is a call in policy's words.
func Request(call schemas.HTTPCall, s Scope) policy.Request {
	return policy.Request{
		Key: call.AllowlistKey, KeyRequired: s.KeyRequired, Only: s.Only, Agent: s.Agent, Internal: s.Internal, Connect: s.Connect,
		Method: call.Method, URL: call.URL, Headers: call.Headers, IdempotencyKey: call.IdempotencyKey,
		// A plan's URL keeps its fragment for the report; it never goes out.
		DropFragment: s.KeyRequired,
		HasBody:      call.Body != nil || call.BodyBlob != "", Upload: s.Facts.Kind == schemas.KindPassthrough, BodySize: call.SentSize(), Body: call.Body,
		TextBody: call.TextBody || call.Base64Body || call.BodyBlob != "",
	}
}

// Call says what the rules of a set make of a call at a time, and what policy says
// of what they leave. A nil set has no rules.
func Call(p *policy.Policy, set *traffic.Set, call schemas.HTTPCall, s Scope, now time.Time) (traffic.Effect, policy.Decision) {
	e := Shape(set, call, s, now)
	return e, Decide(p, e, call, Applied(e, call), s)
}

// Shape is what the rules of a set make of a call at a time. A nil set has none.
func Shape(set *traffic.Set, call schemas.HTTPCall, s Scope, now time.Time) traffic.Effect {
	if set == nil {
		return traffic.Effect{Headers: call.Headers}
	}
	return set.Shape(traffic.Call{
		Method: call.Method, URL: call.URL, DropFragment: s.KeyRequired, Headers: call.Headers, Facts: s.Facts,
	}, now)
}

// Applied is a call as the rules leave it.
func Applied(e traffic.Effect, call schemas.HTTPCall) schemas.HTTPCall {
	if len(e.Rules) == 0 {
		return call
	}
	given := call.URL
	call.Headers = e.Headers
	if e.URL != "" {
		call.URL = e.URL
		call = Bound(call, given)
	}
	return call
}

// Bound is a call without the caller's own credentials if its origin differs from the one of the
// URL that they were given for.
func Bound(call schemas.HTTPCall, given string) schemas.HTTPCall {
	if len(Credentials(call.Headers)) == 0 {
		return call
	}
	from, known := policy.Split(given, true)
	to, ok := policy.Split(call.URL, true)
	if known && ok && from.Scheme == to.Scheme && from.Authority() == to.Authority() {
		return call
	}
	call.Headers = slices.DeleteFunc(slices.Clone(call.Headers), func(h schemas.Header) bool { return policy.OwnCredential(h.Name) })
	return call
}

// Credentials are the headers in which a caller sends credentials.
func Credentials(headers []schemas.Header) []schemas.Header {
	var list []schemas.Header
	for _, h := range headers {
		if policy.OwnCredential(h.Name) {
			list = append(list, h)
		}
	}
	return list
}

// Decide asks policy about a call as the rules leave it. Where they alone are why
// it is denied, the decision says so.
func Decide(p *policy.Policy, e traffic.Effect, call, shaped schemas.HTTPCall, s Scope) policy.Decision {
	if d, ok := impossible(p, e, s); ok {
		return d
	}
	d := p.Decide(Request(shaped, s))
	if !d.Allowed && e.Changes() && p.Decide(Request(call, s)).Allowed {
		d = ByRules(d, e)
	}
	d.Traffic = Mark(e, s)
	return d
}

// Redirect asks about a redirect from a call that policy lets be followed, as the
// rules leave it. They can lead it elsewhere under the same entry, and to no other.
// Policy is asked about the headers whether they change any or not: it has seen those
// of the call before it, of which rules may have taken some away.
func Redirect(under *policy.Policy, from policy.Permit, d policy.Decision, e traffic.Effect, shaped schemas.HTTPCall, s Scope, status, hop int) policy.Decision {
	if d, ok := impossible(under, e, s); ok {
		return d
	}
	if e.URL != "" {
		d = from.Redirect(e.URL, status, hop)
	}
	if permit, ok := d.Permit(); ok {
		d = permit.Carry(shaped.Headers)
	}
	if !d.Allowed && e.Changes() {
		d = ByRules(d, e)
	}
	return d
}

// impossible is the decision about a call of which the rules make nothing that could
// be sent: they lead it back to where it was going, or change more of it than they may.
func impossible(p *policy.Policy, e traffic.Effect, s Scope) (policy.Decision, bool) {
	var reason string
	switch {
	case e.Loop:
		reason = "the redirects among the tenant's traffic rules lead in a circle; change or disable one of them"
	case e.Excess:
		reason = "the tenant's traffic rules change headers of the call more than " + strconv.Itoa(traffic.MaxChanges) + " times; disable some of them"
	default:
		return policy.Decision{}, false
	}
	return policy.Decision{Decision: schemas.Decision{
		Code: schemas.DenyRule, Version: p.Version(), Traffic: Mark(e, s), Reason: reason + naming(e.Rules),
	}}, true
}

// Unreadable is the decision about a call whose rules cannot be read.
func Unreadable(p *policy.Policy) schemas.Decision {
	return schemas.Decision{
		Code: schemas.DenyRule, Version: p.Version(),
		Reason: "the tenant's traffic rules cannot be read, and nothing is sent as if there were none",
	}
}

// ByRules is a denial of what the rules made of a call that policy would have
// allowed.
func ByRules(d policy.Decision, e traffic.Effect) policy.Decision {
	d.Code = schemas.DenyRule
	d.Reason = "policy denies what the tenant's traffic rules make of the call" + naming(e.Rules) + ": " + d.Reason
	return d
}

// named is how many rules a reason names.
const named = 8

// naming are rules in brackets, for a reason.
func naming(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	more := ""
	if n := len(ids) - named; n > 0 {
		ids, more = ids[:named], " and "+strconv.Itoa(n)+" more"
	}
	return " (" + strings.Join(ids, ", ") + more + ")"
}

// Version is the mark of a call that the rules were not asked about.
func Version(e traffic.Effect) *schemas.Traffic {
	if e.Etag == "" {
		return nil
	}
	return &schemas.Traffic{RulesEtag: e.Etag}
}

// Mark says what the rules made of a call; nil where the tenant has none. Where a
// call to an agent went is left out: its address is the configuration's.
func Mark(e traffic.Effect, s Scope) *schemas.Traffic {
	t := Version(e)
	if t == nil {
		return nil
	}
	t.Rules, t.Redirected, t.Mocked, t.DelayMS = e.Rules, e.Redirect, e.Mock, e.Delay.Milliseconds()
	if e.URL != "" && !s.Agent {
		t.Target = bare(e.URL)
	}
	return t
}

// bare is a URL without its values: the names in its query alone, in order.
func bare(url string) string {
	u, ok := policy.Split(url, true)
	if !ok {
		return ""
	}
	var names []string
	for pair := range strings.SplitSeq(u.Query, "&") {
		if name, _, _ := strings.Cut(pair, "="); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return u.Scheme + "://" + u.Authority() + u.Path + "?" + strings.Join(slices.Compact(names), ",")
}
