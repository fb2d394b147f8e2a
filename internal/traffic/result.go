package traffic

import (
	"time"

	"weir/schemas"
)

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
