package policy

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// checkQuery refuses a query that holds a parameter which the entry adds: of
// two, servers take the first, the last or both. A semicolon divides, too, as
// it does for older servers.
func checkQuery(e *entry, query string) flaw {
	if len(e.params) == 0 {
		return flawNone
	}
	for more := query != ""; more; {
		var pair string
		if i := strings.IndexAny(query, "&;"); i >= 0 {
			pair, query = query[:i], query[i+1:]
		} else {
			pair, more = query, false
		}
		name, _, _ := strings.Cut(pair, "=")
		if e.ownsParam(name) {
			return flawQueryOwned
		}
	}
	return flawNone
}

// ownsParam takes a name as it stands in the query, with its escapes, which are
// well-formed. What stands before a bracket counts by itself: name[] and name[x]
// fill name where brackets make lists.
func (e *entry) ownsParam(raw string) bool {
	var buf [maxAddedName]byte
	name := foldParam(paramName(buf[:0], raw))
	if e.hasParam(name) {
		return true
	}
	head, _, bracket := bytes.Cut(name, []byte{'['})
	if !bracket {
		return false
	}
	if e.hasParam(head) {
		return true
	}
	name[len(head)] = '_' // what becomes of a bracket that is never closed
	return e.hasParam(name)
}

// paramName appends a name of a query without its escapes, which are well-formed.
func paramName(name []byte, raw string) []byte {
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '+':
			name = append(name, ' ')
		case '%':
			name = append(name, hexValue(raw[i+1])<<4|hexValue(raw[i+2]))
			i += 2
		default:
			name = append(name, raw[i])
		}
	}
	return name
}

func (e *entry) hasParam(name []byte) bool {
	return slices.ContainsFunc(e.params, func(own string) bool { return strings.EqualFold(own, string(name)) })
}

// foldParam changes a decoded name into what the least careful reader sees:
// nothing from a NUL on, no spaces before, and an underscore for a dot or a space.
// Case is for the comparison.
func foldParam(name []byte) []byte {
	name, _, _ = bytes.Cut(name, []byte{0})
	name = bytes.TrimLeft(name, " ")
	for i, c := range name {
		if c == '.' || c == ' ' {
			name[i] = '_'
		}
	}
	return name
}

// checkMembers refuses a body that an entry cannot add its members to, or that
// has one of them. Methods that usually carry no body may go without.
func checkMembers(e *entry, method methods, r *Request) flaw {
	switch {
	case len(e.members) == 0:
		return flawNone
	case !r.HasBody:
		if method&(methodPOST|methodPUT|methodPATCH) != 0 {
			return flawBodyMissing
		}
		return flawNone
	case r.TextBody:
		return flawBodyNotObject
	}
	dec := json.NewDecoder(bytes.NewReader(r.Body))
	if !json.Valid(r.Body) {
		return flawBodyNotObject
	}
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return flawBodyNotObject
	}
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return flawBodyNotObject
		}
		if text, ok := name.(string); !ok || e.ownsMember(text) {
			return flawBodyOwned
		}
	}
	return flawNone
}

// ownsMember compares without case, as some decoders of JSON do, Go's among them.
func (e *entry) ownsMember(name string) bool {
	return slices.ContainsFunc(e.members, func(own string) bool { return strings.EqualFold(own, name) })
}
