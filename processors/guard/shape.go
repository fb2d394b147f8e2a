package guard

import (
	"time"

	"weir/internal/policy"
	"weir/internal/policy/evaluate"
	"weir/internal/traffic"
	"weir/schemas"
)

// Rules are the traffic rules of all tenants.
type Rules interface {
	// InForce is the current rule set of a tenant, nil if there is none, and a channel that is
	// closed when another comes into force. After an error the rules are unknown, and nothing may
	// be sent as if there were none.
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

// shape applies the rules of the scope's tenant.
func (g *Guard) shape(call schemas.HTTPCall, s evaluate.Scope) (shaping, error) {
	none := shaping{effect: traffic.Effect{Headers: call.Headers}, asked: asked{call.URL, call.Headers}}
	if g.rules == nil {
		return none, nil
	}
	set, replaced, err := g.rules.InForce(s.Tenant)
	if err != nil || set == nil {
		return none, err
	}
	return shaping{evaluate.Shape(set, call, s, time.Now()), replaced, !set.Expires(), none.asked}, nil
}

// Bypassed returns why the rules now deny p's tunnel, or "" if they do not. A tunnel whose requests
// are inspected bypasses no rule.
func (g *Guard) Bypassed(p Pass) string {
	permit := p.Permit()
	if g.rules == nil || permit.Connect() != policy.ConnectTunnel {
		return ""
	}
	set, _, err := g.rules.InForce(p.scope.Tenant)
	if err != nil {
		return evaluate.Unreadable(g.policy()).Reason
	}
	if id := set.Bypassed(permit.Host(), permit.Port(), p.scope.Facts, time.Now()); id != "" {
		return "the traffic rule " + id + " answers or redirects calls to this host, and a tunnel hides them; disable the rule, or set connect of the entry to inspect"
	}
	return ""
}

// Stale reports whether p must be evaluated again: another policy is in force, or the rules change
// its call differently than before, or are unreadable.
func (g *Guard) Stale(p Pass) bool {
	if g.policy() != p.under {
		return true
	}
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
