// Package traffic is the engine of traffic rules: it says what a tenant's rules
// make of one call. It is pure, and allows nothing: policy sees what it leaves.
package traffic

import (
	"bytes"
	"slices"
	"time"

	"weir/schemas"
)

// Set is the rules of one tenant, compiled. It is never changed and safe for
// concurrent use. A nil Set shapes nothing.
type Set struct {
	etag    string
	doc     schemas.RuleSet
	rules   []rule // in the order of precedence
	expires bool   // one of them has a time to expire
}

// Etag is the version of the set; empty for none.
func (s *Set) Etag() string {
	if s == nil {
		return ""
	}
	return s.etag
}

// Expires reports whether the set's effect on a call can change with time: one of its rules has an
// expiry.
func (s *Set) Expires() bool { return s != nil && s.expires }

// Call is the call as an action asks for it.
type Call struct {
	Method string // upper case
	URL    string
	// DropFragment: a fragment of the URL does not count; see policy.Request.
	DropFragment bool
	Headers      []schemas.Header
	Facts        Facts
}

// Facts are what scopes are held against.
type Facts struct {
	Kind schemas.Kind
	// TaskType is a run's, Principal the id of the token that asked: a scope's agent
	// is either.
	TaskType, Principal string
	TaskID              string
	ActionID            string
}

// Effect is what the rules make of one call. The zero Effect changes nothing.
// Nothing that it points to may be changed: it can be the set's own.
type Effect struct {
	// Etag is the version of the set; empty where the tenant has none.
	Etag string
	// URL is where a redirect sends the call; empty: where it was going.
	URL string
	// Headers are the call's after the rules; the call's own where none changed them.
	Headers []schemas.Header
	// Redirect and Mock are the ids of the rule that won; at most one is set.
	Redirect, Mock string
	// Answer is Mock's.
	Answer *Answer
	// Delay is how long the call is held back before it is made.
	Delay time.Duration
	// Delays are the ids of the rules that it comes of, those of no time included.
	Delays []string
	// Until is when the first of them expires; zero: none does.
	Until time.Time
	// Response are the changes to the headers of the answer, in order.
	Response []schemas.HeaderChange
	// Rules are the ids of the rules that apply, in the order of their effects.
	Rules []string
	// Loop: five redirects of the set, or fewer, lead the call back to where it was going. It must be
	// denied.
	Loop bool
	// Excess: the rules change headers more than MaxChanges times, and none of these
	// changes is made. The call must be denied.
	Excess bool

	edited bool // Headers are not the call's own
}

// Answer is what a mock answers.
type Answer struct {
	Status  int
	Headers []schemas.Header // sorted, lower case
	Body    []byte
}

// Changes reports whether policy sees another request than the action's.
func (e Effect) Changes() bool { return e.URL != "" || e.edited }

// Same reports whether two effects make the same of a call, whatever the versions.
func (e Effect) Same(o Effect) bool {
	return e.URL == o.URL && e.Redirect == o.Redirect && e.Mock == o.Mock && e.Delay == o.Delay && e.Loop == o.Loop && e.Excess == o.Excess &&
		slices.Equal(e.Headers, o.Headers) && slices.Equal(e.Response, o.Response) && slices.Equal(e.Rules, o.Rules) && e.Answer.same(o.Answer)
}

func (a *Answer) same(o *Answer) bool {
	if a == nil || o == nil || a == o {
		return a == o
	}
	return a.Status == o.Status && slices.Equal(a.Headers, o.Headers) && bytes.Equal(a.Body, o.Body)
}
