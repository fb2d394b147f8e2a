package traffic

import (
	"encoding/json"
	"time"

	"weir/schemas"
)

// Invalid is why a rule is refused: a place in it (a JSON Pointer, such as
// /match/url_pattern; empty for the rule itself) and what is wrong there. It holds
// nothing of the rule's values.
//
//nolint:errname // reads as a sentence: a rule is Invalid
type Invalid struct {
	Pointer string
	Message string
}

func (e *Invalid) Error() string {
	if e.Pointer == "" {
		return "the rule " + e.Message
	}
	return "at " + e.Pointer + ": " + e.Message
}

// Read reads a rule as a caller gives it, fills in the defaults and checks it.
// Members that no rule has are ignored; those of another type of rule are not, and
// neither is an unknown member of the scope, without which the rule would be for
// more actions than its author meant. A member that is null is absent. Without
// enabled the rule is. Now is the time that expires_at must be behind. Its errors
// are *Invalid.
func Read(raw json.RawMessage, now time.Time) (schemas.Rule, error) {
	r := schemas.Rule{Enabled: true, Group: schemas.DefaultGroup, Match: schemas.RuleMatch{Method: AnyMethod}}
	return merge(r, raw, now)
}

// Patch makes a partial change: omitted members stay, null removes an optional member, lists are
// replaced. A new type must come with its own action, which replaces the old one. A patch may name
// the id and the group but not change them. Its errors are *Invalid.
func Patch(r schemas.Rule, patch json.RawMessage, now time.Time) (schemas.Rule, error) {
	return merge(r, patch, now)
}

func merge(r schemas.Rule, raw json.RawMessage, now time.Time) (schemas.Rule, error) {
	m := &members{now: now}
	m.rule(&r, raw)
	if m.err != nil {
		return schemas.Rule{}, m.err
	}
	if _, err := prepare(&r); err != nil {
		return schemas.Rule{}, err
	}
	return r, nil
}
