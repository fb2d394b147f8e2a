package policy

import (
	"bytes"
	"encoding/json"
	"iter"
	"strings"

	"github.com/tidwall/gjson"
)

// checkQuery refuses a query that holds a parameter which the entry adds: of
// two, servers take the first, the last or both. A semicolon divides, too, as
// it does for older servers.
func checkQuery(e *entry, query string) denial {
	if len(e.params) == 0 {
		return nil
	}
	for name := range paramNames(query) {
		if e.ownsParam(name) {
			return deniedQueryOwned
		}
	}
	return nil
}

// paramNames are the names in a query, with their escapes.
func paramNames(query string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for pair := range strings.FieldsFuncSeq(query, func(c rune) bool { return c == '&' || c == ';' }) {
			if name, _, _ := strings.Cut(pair, "="); !yield(name) {
				return
			}
		}
	}
}

// ownsParam takes a name as the query has it, with its escapes, which are
// well-formed. The part before a bracket counts by itself: name[] and name[x]
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
	name[len(head)] = '_' // replaces a bracket that is never closed
	return e.hasParam(name)
}

// paramName appends a name of a query without its escapes, which are well-formed.
func paramName(name []byte, raw string) []byte {
	return unescape(name, strings.ReplaceAll(raw, "+", " "))
}

func (e *entry) hasParam(name []byte) bool { return containsFold(e.params, string(name)) }

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
func checkMembers(e *entry, method methods, r *Request) denial {
	switch {
	case len(e.members) == 0:
		return nil
	case !r.HasBody:
		if method&(methodPOST|methodPUT|methodPATCH) != 0 {
			return deniedBodyMissing
		}
		return nil
	case r.TextBody:
		return deniedBodyNotObject
	}
	body := gjson.ParseBytes(r.Body)
	if !json.Valid(r.Body) || !body.IsObject() {
		return deniedBodyNotObject
	}
	for name := range body.All() {
		if e.ownsMember(name.Str) {
			return deniedBodyOwned
		}
	}
	return nil
}

// ownsMember compares without case, as some decoders of JSON do, Go's among them.
func (e *entry) ownsMember(name string) bool { return containsFold(e.members, name) }
