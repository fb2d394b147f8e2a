package traffic

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/schemas"
)

// members reads the members of a rule's document into a rule. It keeps the first
// error and reads nothing after it.
type members struct {
	now time.Time
	err error
}

func (m *members) refuse(pointer, message string) {
	if m.err == nil {
		m.err = &Invalid{Pointer: pointer, Message: message}
	}
}

// object is a JSON object's members as they came, and its place.
type object struct {
	at      string
	members map[string]json.RawMessage
}

func null(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }

// object reads an object. Of the names that are known, none may come in another
// case: it would be ignored, and its author would not know.
func (m *members) object(at string, raw json.RawMessage, known ...string) object {
	o := object{at: at}
	if null(raw) || json.Unmarshal(raw, &o.members) != nil {
		m.refuse(at, "must be an object")
		return object{at: at}
	}
	for _, k := range known {
		for name := range o.members {
			if name != k && strings.EqualFold(name, k) {
				m.refuse(at, "has the member "+k+" in another case")
			}
		}
	}
	return o
}

// given is a member that is there, and whether it is null.
func (m *members) given(o object, name string) (raw json.RawMessage, isNull, ok bool) {
	raw, ok = o.members[name]
	if !ok || m.err != nil {
		return nil, false, false
	}
	return raw, null(raw), true
}

// required refuses a null that would take away what every rule has.
func (m *members) required(o object, names ...string) {
	for _, name := range names {
		if _, isNull, ok := m.given(o, name); ok && isNull {
			m.refuse(o.at+"/"+name, "is required, and cannot be null")
		}
	}
}

// read reads a value, which must be of a kind; null makes it what it is when it is absent.
// It is false where there is none, and for null.
func read[T any](m *members, o object, name, kind string, absent T, into *T) bool {
	raw, isNull, ok := m.given(o, name)
	if !ok {
		return false
	}
	*into = absent
	if !isNull && json.Unmarshal(raw, into) != nil {
		m.refuse(o.at+"/"+name, "must be "+kind)
	}
	return !isNull && m.err == nil
}

func (m *members) text(o object, name, absent string, into *string) bool {
	return read(m, o, name, "a string", absent, into)
}

// word is text that has an empty value only where it is absent.
func (m *members) word(o object, name, absent string, into *string) {
	if m.text(o, name, absent, into) && *into == "" {
		m.refuse(o.at+"/"+name, "must not be empty")
	}
}

// whole reads a number that is written as a whole one: 1.0 and 1e3 are not.
func (m *members) whole(o object, name string, from, to int64, into *int64) bool {
	kind := "a whole number from " + strconv.FormatInt(from, 10) + " to " + strconv.FormatInt(to, 10) + ", written without a fraction or an exponent"
	ok := read(m, o, name, kind, 0, into)
	if ok && (*into < from || *into > to) {
		m.refuse(o.at+"/"+name, "must be "+kind)
	}
	return ok
}

// rule merges a document into a rule.
func (m *members) rule(r *schemas.Rule, raw json.RawMessage) {
	before := *r
	o := m.object("", raw, "id", "name", "group", "type", "enabled", "priority", "match", "action", "scope", "expires_at")
	m.required(o, "id", "group", "type", "match", "action")
	m.text(o, "id", "", &r.ID)
	m.text(o, "name", "", &r.Name)
	m.text(o, "group", "", &r.Group)
	m.text(o, "type", "", &r.Type)
	read(m, o, "enabled", "true or false", true, &r.Enabled)
	priority := int64(r.Priority)
	m.whole(o, "priority", -schemas.MaxRulePriority, schemas.MaxRulePriority, &priority)
	r.Priority = int(priority)
	if raw, _, ok := m.given(o, "match"); ok {
		m.match(&r.Match, raw)
	}
	if before.ID != "" && r.ID != before.ID {
		m.refuse("/id", "is never changed")
	}
	if before.ID != "" && r.Group != before.Group {
		m.refuse("/group", "is never changed")
	}
	m.action(o, r, before.Type)
	m.scope(o, r)
	m.expiry(o, r)
}

func (m *members) expiry(o object, r *schemas.Rule) {
	if _, _, ok := m.given(o, "expires_at"); !ok {
		return
	}
	r.ExpiresAt = time.Time{}
	var text string
	if !m.text(o, "expires_at", "", &text) {
		return
	}
	at, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil || at.UTC().Year() > 9999: // a year of five digits cannot be written
		m.refuse("/expires_at", "must be a time such as 2030-01-31T12:00:00Z")
	case !at.After(m.now):
		m.refuse("/expires_at", "must be in the future")
	default:
		r.ExpiresAt = at.UTC()
	}
}

func (m *members) match(match *schemas.RuleMatch, raw json.RawMessage) {
	o := m.object("/match", raw, "url_pattern", "method", "resource_type", "include_query")
	m.required(o, "url_pattern")
	m.text(o, "url_pattern", "", &match.URLPattern)
	m.word(o, "method", AnyMethod, &match.Method)
	match.Method = upper(match.Method)
	m.text(o, "resource_type", "", &match.ResourceType)
	read(m, o, "include_query", "true or false", false, &match.IncludeQuery)
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

// action merges the action; a new type requires a new action, which replaces the old one.
func (m *members) action(o object, r *schemas.Rule, before string) {
	raw, _, ok := m.given(o, "action")
	if r.Type != before {
		r.Action = schemas.RuleAction{}
		if !ok {
			m.refuse("/action", "is missing; each rule type needs its own action")
		}
	}
	if !ok {
		return
	}
	a := &r.Action
	act := m.object("/action", raw, "to_url", "delay_ms", "body_mode", "body", "status", "headers", "request_headers", "response_headers")
	m.text(act, "to_url", "", &a.ToURL)
	if _, _, ok := m.given(act, "delay_ms"); ok {
		a.DelayMS = nil
		var n int64
		if m.whole(act, "delay_ms", 0, schemas.MaxRuleDelay, &n) {
			a.DelayMS = &n
		}
	}
	m.word(act, "body_mode", "", &a.BodyMode)
	m.body(act, a)
	status := int64(a.Status)
	m.whole(act, "status", minStatus, maxStatus, &status)
	a.Status = int(status)
	m.mockHeaders(act, a)
	m.changes(act, "request_headers", &a.RequestHeaders)
	m.changes(act, "response_headers", &a.ResponseHeaders)
}

// body keeps a mock's body without the white space between its parts.
func (m *members) body(o object, a *schemas.RuleAction) {
	raw, isNull, ok := m.given(o, "body")
	if !ok {
		return
	}
	a.Body = nil
	var b bytes.Buffer
	if !isNull && json.Compact(&b, raw) == nil {
		a.Body = b.Bytes()
	}
	if a.Body != nil && a.BodyMode == "" {
		a.BodyMode = bodyJSON
	}
}

// mockHeaders merges a mock's headers by their names, in any case.
func (m *members) mockHeaders(o object, a *schemas.RuleAction) {
	raw, isNull, ok := m.given(o, "headers")
	if !ok {
		return
	}
	merged := maps.Clone(a.Headers)
	a.Headers = nil
	if isNull {
		return
	}
	if merged == nil {
		merged = map[string]string{}
	}
	given := m.object("/action/headers", raw)
	named := map[string]bool{}
	for name := range given.members {
		named[strings.ToLower(name)] = true
	}
	maps.DeleteFunc(merged, func(name, _ string) bool { return named[strings.ToLower(name)] })
	for name, raw := range given.members {
		var value *string // null removes the header
		if json.Unmarshal(raw, &value) != nil {
			m.refuse("/action/headers", "must have strings as values")
		} else if value != nil {
			merged[name] = *value
		}
	}
	if len(merged) > 0 {
		a.Headers = merged
	}
}

// changes reads a list of header changes, which replaces the one before.
func (m *members) changes(o object, name string, into *[]schemas.HeaderChange) {
	var list []json.RawMessage
	if _, _, ok := m.given(o, name); !ok {
		return
	}
	*into = nil
	read(m, o, name, "a list", nil, &list)
	for i, raw := range list {
		if m.err != nil || i > schemas.MaxRuleHeaders { // check says that these are too many
			return
		}
		c := m.object(o.at+"/"+name+"/"+strconv.Itoa(i), raw, "op", "name", "value")
		var change schemas.HeaderChange
		m.text(c, "op", "", &change.Op)
		m.text(c, "name", "", &change.Name)
		switch has := m.text(c, "value", "", &change.Value); {
		case has && change.Op == schemas.HeaderRemove:
			m.refuse(c.at+"/value", "does not go with remove")
		case !has && (change.Op == schemas.HeaderSet || change.Op == schemas.HeaderAppend): // others are reported as an unknown operation
			m.refuse(c.at+"/value", "is missing")
		}
		*into = append(*into, change)
	}
}

func (m *members) scope(o object, r *schemas.Rule) {
	raw, isNull, ok := m.given(o, "scope")
	if !ok {
		return
	}
	var scope schemas.RuleScope
	if !isNull {
		if r.Scope != nil {
			scope = *r.Scope
		}
		s := m.object("/scope", raw)
		m.word(s, "action_kind", "", (*string)(&scope.ActionKind))
		m.word(s, "agent", "", &scope.Agent)
		m.word(s, "task_id", "", &scope.TaskID)
		m.word(s, "request_id", "", &scope.RequestID)
		for name := range s.members {
			if !slices.Contains([]string{"action_kind", "agent", "task_id", "request_id"}, name) {
				m.refuse("/scope", "has a member that no scope has; there are action_kind, agent, task_id and request_id")
			}
		}
	}
	r.Scope = nil
	if scope != (schemas.RuleScope{}) {
		r.Scope = &scope
	}
}
