package traffic

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"
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
	if null(raw) || json.Unmarshal(raw, &o.members) != nil || o.members == nil {
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

// text reads a string; null makes it what it is when it is absent.
func (m *members) text(o object, name, absent string, into *string) {
	raw, isNull, ok := m.given(o, name)
	switch {
	case !ok:
	case isNull:
		*into = absent
	case raw[0] != '"' || json.Unmarshal(raw, into) != nil:
		m.refuse(o.at+"/"+name, "must be a string")
	}
}

// word is text that has an empty value only where it is absent.
func (m *members) word(o object, name, absent string, into *string) {
	m.text(o, name, absent, into)
	if raw, isNull, ok := m.given(o, name); ok && !isNull && *into == "" && raw[0] == '"' {
		m.refuse(o.at+"/"+name, "must not be empty")
	}
}

func (m *members) flag(o object, name string, absent bool, into *bool) {
	raw, isNull, ok := m.given(o, name)
	switch {
	case !ok:
	case isNull:
		*into = absent
	case json.Unmarshal(raw, into) != nil:
		m.refuse(o.at+"/"+name, "must be true or false")
	}
}

// whole reads a number that is written as a whole one: 1.0 and 1e3 are not. It is
// false where there is none, and for null.
func (m *members) whole(o object, name string, from, to int64) (int64, bool) {
	raw, isNull, ok := m.given(o, name)
	if !ok || isNull {
		return 0, false
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(raw)), 10, 64)
	if err != nil || n < from || n > to {
		m.refuse(o.at+"/"+name, "must be a whole number from "+strconv.FormatInt(from, 10)+" to "+strconv.FormatInt(to, 10)+", written without a fraction or an exponent")
		return 0, false
	}
	return n, true
}
