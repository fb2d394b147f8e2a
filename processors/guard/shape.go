package guard

import (
	"time"

	"weir/internal/policy/judge"
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
func (g *Guard) shape(call schemas.HTTPCall, s judge.Scope) (shaping, error) {
	none := shaping{effect: traffic.Effect{Headers: call.Headers}, asked: asked{call.URL, call.Headers}}
	if g.rules == nil {
		return none, nil
	}
	set, replaced, err := g.rules.InForce(s.Tenant)
	if err != nil || set == nil {
		return none, err
	}
	return shaping{judge.Shape(set, call, s, time.Now()), replaced, !set.Expires(), none.asked}, nil
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
