package traffic

import (
	"slices"
	"time"

	"weir/internal/policy"
	"weir/schemas"
)

// Shape computes the effect of the rules on a call at a time. Of the matching redirects and mocks
// only the first by precedence applies. Then all matching header rules and delays take effect, the
// first by precedence last, so that it wins. Delays add up. Precedence: the greater priority, then
// the more specific rule, then the smaller id. The more specific rule is the one with more members
// in its scope, then the one that names a method, then the one whose pattern has more bytes that
// are not wildcards.
//
// A call whose URL policy denies for its form is left as it is.
func (s *Set) Shape(c Call, now time.Time) Effect {
	e := Effect{Etag: s.Etag(), Headers: c.Headers}
	if s == nil || !s.doc.GlobalActive {
		return e
	}
	at, ok := readSite(c.URL, c.DropFragment)
	if !ok {
		return e
	}
	var buf [16]*rule
	live := buf[:0]
	var winner *rule // which says where the call goes
	for i := range s.rules {
		r := &s.rules[i]
		if !r.fits(c.Method, &at) || r.idle(&c.Facts, now) != "" {
			continue
		}
		live = append(live, r)
		if winner == nil && r.decides() && !r.stays(&at) {
			winner = r
		}
	}
	if len(live) == 0 {
		return e
	}
	e.Rules = make([]string, 0, len(live))
	switch {
	case winner == nil:
	case winner.answer != nil:
		e.Mock, e.Answer, e.Rules = winner.ID, winner.answer, append(e.Rules, winner.ID)
	default:
		e.Redirect, e.URL, e.Rules = winner.ID, winner.redirect(&at), append(e.Rules, winner.ID)
		e.Loop = s.loops(&c, &at, e.URL, now)
	}
	slices.Reverse(live)
	apply(&e, live)
	return e
}

// longestCircle is how many redirects of a circle are found. Only the first one would be made.
const longestCircle = 5

// loops reports whether the redirects behind a first one, which led to a URL, lead the call back to where
// it was going.
func (s *Set) loops(c *Call, from *site, url string, now time.Time) bool {
	for range longestCircle {
		at, ok := readSite(url, false)
		if !ok || at.Parts == from.Parts {
			return ok
		}
		next := slices.IndexFunc(s.rules, func(r rule) bool {
			return r.decides() && r.fits(c.Method, &at) && r.idle(&c.Facts, now) == "" && !r.stays(&at)
		})
		if next < 0 || s.rules[next].answer != nil {
			return false
		}
		url = s.rules[next].redirect(&at)
	}
	return false
}

// Bypassed is the id of the first mock or redirect in force that can match a call to a host and port; empty:
// there is none. A tunnel hides its calls, so that the rule would not see them.
func (s *Set) Bypassed(host string, port uint16, f Facts, now time.Time) string {
	if s == nil || !s.doc.GlobalActive {
		return ""
	}
	for i := range s.rules {
		r := &s.rules[i]
		if !r.decides() || r.idle(&f, now) != "" {
			continue
		}
		for _, scheme := range []string{"https", "http"} {
			if at, ok := readSite(schemas.Destination(scheme, host, port), false); ok && r.pattern.reaches(&at) {
				return r.ID
			}
		}
	}
	return ""
}

// MaxChanges is how many changes of headers the rules may make of one call and its
// answer together.
const MaxChanges = 1024

// apply lets the header rules and the delays take effect, in this order. No
// header is changed where the changes are too many, nor any more once there are
// more headers than policy lets pass.
func apply(e *Effect, live []*rule) {
	changes, before := 0, e.Headers
	for _, r := range live {
		changes += len(r.Action.RequestHeaders) + len(r.Action.ResponseHeaders)
	}
	e.Excess = changes > MaxChanges
	for _, r := range live {
		if len(r.Action.RequestHeaders) == 0 {
			continue
		}
		if !e.Excess && len(e.Headers) <= policy.MaxHeaders {
			e.Headers = edit(e.Headers, r.Action.RequestHeaders, false)
		}
		e.Rules = append(e.Rules, r.ID)
	}
	e.edited = !slices.Equal(e.Headers, before)
	held := len(e.Rules)
	for _, r := range live {
		if r.Type != schemas.RuleDelay {
			continue
		}
		e.Delay += time.Duration(*r.Action.DelayMS) * time.Millisecond
		if at := r.ExpiresAt; !at.IsZero() && (e.Until.IsZero() || at.Before(e.Until)) {
			e.Until = at
		}
		e.Rules = append(e.Rules, r.ID)
	}
	if e.Delay > 0 {
		e.Delays = e.Rules[held:len(e.Rules):len(e.Rules)]
	}
	for _, r := range live {
		if !e.Excess {
			e.Response = append(e.Response, r.Action.ResponseHeaders...)
		}
		if len(r.Action.ResponseHeaders) > 0 && len(r.Action.RequestHeaders) == 0 {
			e.Rules = append(e.Rules, r.ID)
		}
	}
}

// Verdicts say of each rule whose pattern and method match a call whether it
// applies, and why not, in the order of precedence.
func (s *Set) Verdicts(c Call, now time.Time) []schemas.RuleVerdict {
	out := []schemas.RuleVerdict{}
	if s == nil {
		return out
	}
	at, ok := readSite(c.URL, c.DropFragment)
	if !ok {
		return out
	}
	won := ""
	for i := range s.rules {
		r := &s.rules[i]
		if !r.fits(c.Method, &at) {
			continue
		}
		v := schemas.RuleVerdict{ID: r.ID, Type: r.Type, Reason: r.idle(&c.Facts, now)}
		switch {
		case !s.doc.GlobalActive:
			v.Reason = "all rules are off"
		case v.Reason != "" || !r.decides():
		case r.stays(&at):
			v.Reason = "the call is at the redirect's target already"
		case won != "":
			v.Reason = "rule " + won + " comes first, and one redirect or mock alone says where a call goes"
		default:
			won = r.ID
		}
		v.Applies = v.Reason == ""
		out = append(out, v)
	}
	return out
}
