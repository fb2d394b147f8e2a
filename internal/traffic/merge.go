package traffic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/schemas"
)

// Read reads a rule as a caller gives it, fills in the defaults and checks it.
// Members that no rule has are ignored; those of another type of rule are not, and
// neither is an unknown member of the scope, without which the rule would be for
// more actions than its author meant. A member that is null is absent. Without
// enabled the rule is. Now is the time that expires_at must be behind. Its errors
// are *Invalid.
func Read(raw json.RawMessage, now time.Time) (schemas.Rule, error) {
	return merge(schemas.Rule{}, json.RawMessage("{}"), raw, now)
}

// Patch makes a partial change: omitted members stay, null removes an optional member, lists are
// replaced. A new type must come with its own action, which replaces the old one. A patch may name
// the id and the group but not change them. Its errors are *Invalid.
func Patch(r schemas.Rule, patch json.RawMessage, now time.Time) (schemas.Rule, error) {
	return merge(r, schemas.Encoded(r), patch, now) // a mock's body keeps its bytes
}

// merge merges a document into a rule, and into the rule's own document.
func merge(before schemas.Rule, base, raw json.RawMessage, now time.Time) (schemas.Rule, error) {
	m := &members{now: now}
	var given struct {
		Type   json.RawMessage `json:"type"`
		Action json.RawMessage `json:"action"`
	}
	var kind string
	if json.Unmarshal(raw, &given) == nil && json.Unmarshal(given.Type, &kind) == nil && kind != before.Type {
		base = m.object("", base, json.RawMessage(`{"action":null}`), []member{{name: "action"}})
	}
	doc := m.object("", base, raw, ofRule())
	r := schemas.Rule{Enabled: true, Group: schemas.DefaultGroup, Match: schemas.RuleMatch{Method: AnyMethod}}
	if err := json.Unmarshal(doc, &r); err != nil {
		m.refuse("", "cannot be read")
	}
	switch a := &r.Action; {
	case before.ID != "" && r.ID != before.ID:
		m.refuse("/id", "is never changed")
	case before.ID != "" && r.Group != before.Group:
		m.refuse("/group", "is never changed")
	case r.Type != before.Type && given.Action == nil:
		m.refuse("/action", "is missing; each rule type needs its own action")
	case m.body && a.BodyMode == "":
		a.BodyMode = bodyJSON
	}
	r.Match.Method = upper(r.Match.Method)
	r.ExpiresAt = r.ExpiresAt.UTC()
	if r.Scope != nil && *r.Scope == (schemas.RuleScope{}) {
		r.Scope = nil
	}
	if m.err != nil {
		return schemas.Rule{}, m.err
	}
	if _, err := prepare(&r); err != nil {
		return schemas.Rule{}, err
	}
	return r, nil
}

// members merges the members of a rule's document. It keeps the first error.
type members struct {
	now  time.Time
	body bool // the document has a body
	err  error
}

func (m *members) refuse(pointer, message string) {
	if m.err == nil {
		m.err = &Invalid{Pointer: pointer, Message: message}
	}
}

// member is a member that an object may have.
type member struct {
	name string
	// read checks what a document has at a place, and says what is in the place of base then.
	read func(m *members, at string, base, raw json.RawMessage) json.RawMessage
	need bool // null is refused: it would take away what every rule has
}

// ofRule are the members of a rule.
func ofRule() []member {
	return []member{
		{"id", text, true},
		{"name", text, false},
		{"group", text, true},
		{"type", text, true},
		{"enabled", boolean, false},
		{"priority", whole(-schemas.MaxRulePriority, schemas.MaxRulePriority), false},
		{"match", object(
			member{"url_pattern", text, true},
			member{"method", word, false},
			member{"resource_type", text, false},
			member{"include_query", boolean, false},
		), true},
		{"action", object(
			member{"to_url", text, false},
			member{"delay_ms", whole(0, schemas.MaxRuleDelay), false},
			member{"body_mode", word, false},
			member{"body", body, false},
			member{"status", whole(minStatus, maxStatus), false},
			member{"headers", mockHeaders, false},
			member{"request_headers", changes, false},
			member{"response_headers", changes, false},
		), true},
		{"scope", scope, false},
		{"expires_at", expiry, false},
	}
}

func null(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }

// object merges an object into base. Of the names that are known, none may come in another
// case: it would be ignored, and its author would not know.
func (m *members) object(at string, base, raw json.RawMessage, known []member) json.RawMessage {
	var given map[string]json.RawMessage
	if null(raw) || json.Unmarshal(raw, &given) != nil {
		m.refuse(at, "must be an object")
		return base
	}
	into := map[string]json.RawMessage{}
	_ = json.Unmarshal(base, &into) // without one, there is nothing to merge with
	for _, k := range known {
		for name := range given {
			if name != k.name && strings.EqualFold(name, k.name) {
				m.refuse(at, "has the member "+k.name+" in another case")
			}
		}
		switch value, ok := given[k.name]; {
		case !ok:
		case null(value):
			if delete(into, k.name); k.need {
				m.refuse(at+"/"+k.name, "is required, and cannot be null")
			}
		default:
			into[k.name] = k.read(m, at+"/"+k.name, into[k.name], value)
		}
	}
	return schemas.Encoded(into)
}

func object(known ...member) func(m *members, at string, base, raw json.RawMessage) json.RawMessage {
	return func(m *members, at string, base, raw json.RawMessage) json.RawMessage {
		return m.object(at, base, raw, known)
	}
}

// value reads a value, which must be of a kind.
func value[T any](m *members, at string, raw json.RawMessage, kind string) (v T) {
	if json.Unmarshal(raw, &v) != nil {
		m.refuse(at, "must be "+kind)
	}
	return v
}

func text(m *members, at string, _, raw json.RawMessage) json.RawMessage {
	value[string](m, at, raw, "a string")
	return raw
}

func boolean(m *members, at string, _, raw json.RawMessage) json.RawMessage {
	value[bool](m, at, raw, "true or false")
	return raw
}

// word is text that is not empty.
func word(m *members, at string, _, raw json.RawMessage) json.RawMessage {
	if value[string](m, at, raw, "a string") == "" {
		m.refuse(at, "must not be empty")
	}
	return raw
}

// whole is a number that is written as a whole one: 1.0 and 1e3 are not.
func whole(from, to int64) func(m *members, at string, base, raw json.RawMessage) json.RawMessage {
	kind := fmt.Sprintf("a whole number from %d to %d, written without a fraction or an exponent", from, to)
	return func(m *members, at string, _, raw json.RawMessage) json.RawMessage {
		if n := value[int64](m, at, raw, kind); n < from || n > to {
			m.refuse(at, "must be "+kind)
		}
		return raw
	}
}

func expiry(m *members, at string, _, raw json.RawMessage) json.RawMessage {
	value[string](m, at, raw, "a string")
	when := value[time.Time](m, at, raw, "a time such as 2030-01-31T12:00:00Z")
	switch {
	case when.UTC().Year() > 9999: // a year of five digits cannot be written
		m.refuse(at, "must be a time such as 2030-01-31T12:00:00Z")
	case !when.After(m.now):
		m.refuse(at, "must be in the future")
	}
	return raw
}

// body is a mock's body, of any kind.
func body(m *members, _ string, _, raw json.RawMessage) json.RawMessage {
	m.body = true
	return raw
}

// upper folds ASCII alone: Unicode knows other letters that become an S or a K.
func upper(s string) string {
	return strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' {
			return c - 'a' + 'A'
		}
		return c
	}, s)
}

// mockHeaders merges a mock's headers by their names, in any case. Null removes one.
func mockHeaders(m *members, at string, base, raw json.RawMessage) json.RawMessage {
	value[map[string]json.RawMessage](m, at, raw, "an object")
	var given map[string]*string
	if json.Unmarshal(raw, &given) != nil {
		m.refuse(at, "must have strings as values")
	}
	merged := map[string]*string{}
	_ = json.Unmarshal(base, &merged) // or there are none yet
	for name := range given {
		maps.DeleteFunc(merged, func(old string, _ *string) bool { return strings.EqualFold(old, name) })
	}
	maps.Copy(merged, given)
	maps.DeleteFunc(merged, func(_ string, value *string) bool { return value == nil })
	return schemas.Encoded(merged)
}

// changes is a list of header changes, which replaces the one before.
func changes(m *members, at string, _, raw json.RawMessage) json.RawMessage {
	for i, raw := range value[[]json.RawMessage](m, at, raw, "a list") {
		at := at + "/" + strconv.Itoa(i)
		if m.err != nil || i > schemas.MaxRuleHeaders { // check says that these are too many
			break
		}
		m.object(at, nil, raw, []member{{"op", text, false}, {"name", text, false}, {"value", text, false}})
		var change struct {
			Op    string  `json:"op"`
			Value *string `json:"value"`
		}
		_ = json.Unmarshal(raw, &change) // as the object
		switch {
		case change.Value != nil && change.Op == schemas.HeaderRemove:
			m.refuse(at+"/value", "does not go with remove")
		case change.Value == nil && (change.Op == schemas.HeaderSet || change.Op == schemas.HeaderAppend): // others are reported as an unknown operation
			m.refuse(at+"/value", "is missing")
		}
	}
	return raw
}

func scope(m *members, at string, base, raw json.RawMessage) json.RawMessage {
	known := []member{{"action_kind", word, false}, {"agent", word, false}, {"task_id", word, false}, {"request_id", word, false}}
	for name := range value[map[string]json.RawMessage](m, at, raw, "an object") {
		if !slices.ContainsFunc(known, func(k member) bool { return k.name == name }) {
			m.refuse(at, "has a member that no scope has; there are action_kind, agent, task_id and request_id")
		}
	}
	return m.object(at, base, raw, known)
}
