package guard

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/policy"
	"weir/internal/traffic"
	"weir/schemas"
)

// Rules are the traffic rules of all tenants.
type Rules interface {
	// InForce is the set that a tenant's calls go by now, nil where it has none, and
	// a channel that is closed when another comes into force. With an error, nobody
	// knows what the rules are: nothing may be sent as if there were none.
	InForce(tenant string) (set *traffic.Set, replaced <-chan struct{}, err error)
}

// shaping is what the rules in force at one time make of a call, and what of it they
// may have changed, as it was before.
type shaping struct {
	effect   traffic.Effect
	replaced <-chan struct{}
	// lasting: until other rules come, these make the same of the call.
	lasting bool
	asked   asked
}

// shape asks the rules of the scope's tenant.
func (g *Guard) shape(call schemas.HTTPCall, s Scope) (shaping, error) {
	none := shaping{effect: traffic.Effect{Headers: call.Headers}, asked: asked{call.URL, call.Headers}}
	if g.rules == nil {
		return none, nil
	}
	set, replaced, err := g.rules.InForce(s.Tenant)
	if err != nil || set == nil {
		return none, err
	}
	return shaping{shape(set, call, s, time.Now()), replaced, !set.Expires(), none.asked}, nil
}

func shape(set *traffic.Set, call schemas.HTTPCall, s Scope, now time.Time) traffic.Effect {
	return set.Shape(traffic.Call{
		Method: call.Method, URL: call.URL, DropFragment: s.KeyRequired, Headers: call.Headers, Facts: s.Facts,
	}, now)
}

// applied is a call as the rules leave it.
func (sh shaping) applied(call schemas.HTTPCall) schemas.HTTPCall {
	return applied(sh.effect, call)
}

func applied(e traffic.Effect, call schemas.HTTPCall) schemas.HTTPCall {
	if len(e.Rules) == 0 {
		return call
	}
	given := call.URL
	call.Headers = e.Headers
	if e.URL != "" {
		call.URL = e.URL
		call = bound(call, given)
	}
	return call
}

// bound is a call without the caller's own credentials where it leads to another
// origin than that of the URL which they were given for.
func bound(call schemas.HTTPCall, given string) schemas.HTTPCall {
	if len(own(call.Headers)) == 0 {
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

// own are the headers in which a caller sends credentials.
func own(headers []schemas.Header) []schemas.Header {
	var list []schemas.Header
	for _, h := range headers {
		if policy.OwnCredential(h.Name) {
			list = append(list, h)
		}
	}
	return list
}

// Reshaped reports whether the rules now make something else of p's call than they
// did when they were asked, or cannot be read any more: then p is good for nothing,
// and the call is to be asked about anew.
func (g *Guard) Reshaped(p Pass) bool {
	if p.lasting {
		select {
		case <-p.replaced:
		default:
			return false
		}
	}
	sh, err := g.shape(p.unshaped(), p.scope)
	return err != nil || !sh.effect.Same(p.effect)
}

// Judge says what the rules of a set make of a call at a time, and what policy says
// of what they leave. It is what Check goes by, and gives no Pass. A nil set has no
// rules.
func Judge(p *policy.Policy, set *traffic.Set, call schemas.HTTPCall, s Scope, now time.Time) (traffic.Effect, policy.Decision) {
	e := traffic.Effect{Headers: call.Headers}
	if set != nil {
		e = shape(set, call, s, now)
	}
	return e, decide(p, e, call, applied(e, call), s)
}

// decide asks policy about a call as the rules leave it. Where they alone are why
// it is denied, the decision says so.
func decide(p *policy.Policy, e traffic.Effect, call, shaped schemas.HTTPCall, s Scope) policy.Decision {
	if d, ok := impossible(p, e, s); ok {
		return d
	}
	d := p.Decide(Request(shaped, s))
	if !d.Allowed && e.Changes() && p.Decide(Request(call, s)).Allowed {
		d = byRules(d, e)
	}
	d.Traffic = mark(e, s)
	return d
}

// decideHop asks about a redirect of p's call that policy lets be followed, as the
// rules leave it. They can lead it elsewhere under the same entry, and to no other.
// Policy is asked about the headers whether they change any or not: it has seen those
// of the call before it, of which rules may have taken some away.
func (p Pass) decideHop(d policy.Decision, e traffic.Effect, shaped schemas.HTTPCall, status, hop int) policy.Decision {
	if d, ok := impossible(p.under, e, p.scope); ok {
		return d
	}
	if e.URL != "" {
		d = p.permit.Hop(e.URL, status, hop)
	}
	if permit, ok := d.Permit(); ok {
		d = permit.Carry(shaped.Headers)
	}
	if !d.Allowed && e.Changes() {
		d = byRules(d, e)
	}
	return d
}

// impossible is the decision about a call of which the rules make nothing that could
// be sent: they would redirect it for ever, or change more of it than they may.
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
		Code: schemas.DenyRule, Version: p.Version(), Traffic: mark(e, s), Reason: reason + naming(e.Rules),
	}}, true
}

// unreadable is the decision about a call whose rules nobody knows.
func unreadable(p *policy.Policy) schemas.Decision {
	return schemas.Decision{
		Code: schemas.DenyRule, Version: p.Version(),
		Reason: "the tenant's traffic rules cannot be read, and nothing is sent as if there were none",
	}
}

// byRules is a denial of what the rules made of a call that policy would have
// allowed.
func byRules(d policy.Decision, e traffic.Effect) policy.Decision {
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

// version is the mark of a call that the rules were not asked about.
func version(e traffic.Effect) *schemas.Traffic {
	if e.Etag == "" {
		return nil
	}
	return &schemas.Traffic{RulesEtag: e.Etag}
}

// mark says what the rules made of a call; nil where the tenant has none. Where a
// call to an agent went is left out: its address is the configuration's.
func mark(e traffic.Effect, s Scope) *schemas.Traffic {
	t := version(e)
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
