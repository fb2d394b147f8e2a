package traffic

import (
	"slices"
	"time"

	"weir/internal/policy"
	"weir/schemas"
)

// Shape says what the rules make of a call at a time. Order: of the matching
// redirects and mocks the first by precedence wins, and is the only one; then all
// matching header rules and delays take effect, the first by precedence last, so
// that its word stands. Delays add up. Precedence: the greater priority, then the
// more specific rule, then the smaller id. The more specific is the one with more
// members in its scope, then the one that names a method, then the one whose
// pattern has more bytes that are no wildcard.
//
// A call whose URL policy denies for its form is left as it is.
func (s *Set) Shape(c Call, now time.Time) Effect {
	e := Effect{Etag: s.Etag(), Headers: c.Headers}
	if !s.active() {
		return e
	}
	at, ok := readSite(c.URL, c.DropFragment)
	if !ok {
		return e
	}
	var buf [16]int32
	ranks := s.live(buf[:0], c.Method, &at, &c.Facts, now)
	if len(ranks) == 0 {
		return e
	}
	e.Rules = make([]string, 0, len(ranks))
	if w := s.winner(ranks, &at); w != nil {
		e.Rules = append(e.Rules, w.ID)
		s.steer(&e, w, c, &at, now)
	}
	slices.Reverse(ranks)
	s.apply(&e, ranks)
	return e
}

func (s *Set) active() bool { return s != nil && s.doc.GlobalActive && len(s.rules) > 0 }

// live is matching without the rules that have no effect on the action.
func (s *Set) live(ranks []int32, method string, at *site, f *Facts, now time.Time) []int32 {
	ranks = s.matching(ranks, method, at)
	kept := ranks[:0]
	for _, i := range ranks {
		if s.rules[i].idle(f, now) == "" {
			kept = append(kept, i)
		}
	}
	return kept
}

// winner is the rule that says where the call goes; nil for none.
func (s *Set) winner(ranks []int32, at *site) *rule {
	for _, i := range ranks {
		if r := &s.rules[i]; r.decides() && !r.stays(at) {
			return r
		}
	}
	return nil
}

// steer gives the call to the winner.
func (s *Set) steer(e *Effect, w *rule, c Call, at *site, now time.Time) {
	if w.answer != nil {
		e.Mock, e.Answer = w.ID, w.answer
		return
	}
	e.Redirect, e.URL = w.ID, w.redirect(at)
	x := search{set: s, most: callLooks}
	e.Loop = circle(at, e.URL, callReach(), func(at *site) *rule { return x.decider(c.Method, at, &c.Facts, now) })
}

// MaxChanges is how many changes of headers the rules may make of one call and its
// answer together.
const MaxChanges = 1024

// excessive reports whether the rules make more.
func (s *Set) excessive(ranks []int32) bool {
	n := 0
	for _, i := range ranks {
		n += len(s.rules[i].Action.RequestHeaders) + len(s.rules[i].Action.ResponseHeaders)
	}
	return n > MaxChanges
}

// apply lets the header rules and the delays take effect, in the order of ranks. No
// header is changed where the changes are too many, nor any more once there are
// more headers than policy lets pass.
func (s *Set) apply(e *Effect, ranks []int32) {
	e.Excess = s.excessive(ranks)
	before := e.Headers
	for _, i := range ranks {
		r := &s.rules[i]
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
	for _, i := range ranks {
		if r := &s.rules[i]; r.Type == schemas.RuleDelay {
			e.Delay += time.Duration(*r.Action.DelayMS) * time.Millisecond
			if at := r.ExpiresAt; !at.IsZero() && (e.Until.IsZero() || at.Before(e.Until)) {
				e.Until = at
			}
			e.Rules = append(e.Rules, r.ID)
		}
	}
	if e.Delay > 0 {
		e.Delays = e.Rules[held:len(e.Rules):len(e.Rules)]
	}
	for _, i := range ranks {
		r := &s.rules[i]
		if !e.Excess {
			e.Response = append(e.Response, r.Action.ResponseHeaders...)
		}
		if len(r.Action.ResponseHeaders) > 0 && len(r.Action.RequestHeaders) == 0 {
			e.Rules = append(e.Rules, r.ID)
		}
	}
}
