package traffic

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"weir/schemas"
)

// rule merges a document into a rule.
func (m *members) rule(r *schemas.Rule, raw json.RawMessage) {
	before := *r
	o := m.object("", raw, "id", "name", "group", "type", "enabled", "priority", "match", "action", "scope", "expires_at")
	m.required(o, "id", "group", "type", "match", "action")
	m.text(o, "id", "", &r.ID)
	m.text(o, "name", "", &r.Name)
	m.text(o, "group", "", &r.Group)
	m.text(o, "type", "", &r.Type)
	m.flag(o, "enabled", true, &r.Enabled)
	m.priority(o, r)
	if raw, _, ok := m.given(o, "match"); ok {
		m.match(&r.Match, raw)
	}
	if before.ID != "" {
		m.kept(&before, r)
	}
	m.action(o, r, before.Type)
	m.scope(o, r)
	m.expiry(o, r)
}

// kept holds a patch to what no patch changes.
func (m *members) kept(before, r *schemas.Rule) {
	if r.ID != before.ID {
		m.refuse("/id", "is never changed")
	}
	if r.Group != before.Group {
		m.refuse("/group", "is never changed")
	}
}

func (m *members) priority(o object, r *schemas.Rule) {
	if _, _, ok := m.given(o, "priority"); ok {
		n, _ := m.whole(o, "priority", -schemas.MaxRulePriority, schemas.MaxRulePriority)
		r.Priority = int(n)
	}
}

func (m *members) match(match *schemas.RuleMatch, raw json.RawMessage) {
	o := m.object("/match", raw, "url_pattern", "method", "resource_type", "include_query")
	m.required(o, "url_pattern")
	m.text(o, "url_pattern", "", &match.URLPattern)
	m.word(o, "method", AnyMethod, &match.Method)
	match.Method = upper(match.Method)
	m.text(o, "resource_type", "", &match.ResourceType)
	m.flag(o, "include_query", false, &match.IncludeQuery)
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

// action merges the action; with another type there must be one, and it begins anew.
func (m *members) action(o object, r *schemas.Rule, before string) {
	raw, _, ok := m.given(o, "action")
	if r.Type != before {
		r.Action = schemas.RuleAction{}
		if !ok {
			m.refuse("/action", "is missing; each type of rule has one of its own")
			return
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
		if n, ok := m.whole(act, "delay_ms", 0, schemas.MaxRuleDelay); ok {
			a.DelayMS = &n
		}
	}
	m.word(act, "body_mode", "", &a.BodyMode)
	m.body(act, a)
	if _, _, ok := m.given(act, "status"); ok {
		n, _ := m.whole(act, "status", minStatus, maxStatus)
		a.Status = int(n)
	}
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
	merged := map[string]string{}
	if isNull {
		a.Headers = nil
		return
	}
	given := m.object("/action/headers", raw)
	for name, value := range a.Headers {
		if !given.has(name) {
			merged[name] = value
		}
	}
	for name := range given.members {
		raw, isNull, ok := m.given(given, name)
		if !ok || isNull {
			continue
		}
		var value string
		if raw[0] != '"' || json.Unmarshal(raw, &value) != nil {
			m.refuse("/action/headers", "must have strings as values")
		}
		merged[name] = value
	}
	a.Headers = nil
	if len(merged) > 0 {
		a.Headers = merged
	}
}

func (o object) has(name string) bool {
	for n := range o.members {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// changes reads a list of header changes, which replaces the one before.
func (m *members) changes(o object, name string, into *[]schemas.HeaderChange) {
	raw, isNull, ok := m.given(o, name)
	if !ok {
		return
	}
	*into = nil
	if isNull {
		return
	}
	at := o.at + "/" + name
	var list []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &list) != nil {
		m.refuse(at, "must be a list")
		return
	}
	for i, raw := range list {
		if m.err != nil || i > schemas.MaxRuleHeaders { // check says that these are too many
			return
		}
		c := m.object(at+"/"+strconv.Itoa(i), raw, "op", "name", "value")
		var change schemas.HeaderChange
		m.text(c, "op", "", &change.Op)
		m.text(c, "name", "", &change.Name)
		m.text(c, "value", "", &change.Value)
		_, isNull, ok := m.given(c, "value")
		switch has := ok && !isNull; {
		case has && change.Op == schemas.HeaderRemove:
			m.refuse(c.at+"/value", "does not go with remove")
		case !has && (change.Op == schemas.HeaderSet || change.Op == schemas.HeaderAppend): // another is told as no operation
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
	if isNull {
		r.Scope = nil
		return
	}
	var scope schemas.RuleScope
	if r.Scope != nil {
		scope = *r.Scope
	}
	s := m.object("/scope", raw)
	kind := string(scope.ActionKind)
	m.word(s, "action_kind", "", &kind)
	scope.ActionKind = schemas.Kind(kind)
	m.word(s, "agent", "", &scope.Agent)
	m.word(s, "task_id", "", &scope.TaskID)
	m.word(s, "request_id", "", &scope.RequestID)
	for name := range s.members {
		switch name {
		case "action_kind", "agent", "task_id", "request_id":
		default:
			m.refuse("/scope", "has a member that no scope has; there are action_kind, agent, task_id and request_id")
		}
	}
	r.Scope = nil
	if scope != (schemas.RuleScope{}) {
		r.Scope = &scope
	}
}

func (m *members) expiry(o object, r *schemas.Rule) {
	raw, isNull, ok := m.given(o, "expires_at")
	if !ok {
		return
	}
	r.ExpiresAt = time.Time{}
	if isNull {
		return
	}
	var text string
	m.text(o, "expires_at", "", &text)
	at, err := time.Parse(time.RFC3339, text)
	switch {
	case raw[0] != '"' || err != nil || at.UTC().Year() > 9999: // a year of five digits cannot be written
		m.refuse("/expires_at", "must be a time such as 2030-01-31T12:00:00Z")
	case !at.After(m.now):
		m.refuse("/expires_at", "must be in the future")
	default:
		r.ExpiresAt = at.UTC()
	}
}
