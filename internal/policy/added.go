package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"weir/internal/policy/placeholder"
	"weir/internal/redact"
)

const (
	maxAdded     = 64  // names in each of headers, query and body
	maxAddedName = 256 // bytes
)

// setHeaders takes the headers that the worker adds. The values of what is
// added are never part of an error: they may hold credentials.
func (e *entry) setHeaders(headers map[string]string) error {
	return e.setAdded("headers", headers, &e.owned, func(name string) (string, error) {
		folded := string(foldName(nil, name))
		switch kind := classify([]byte(folded)); {
		case !headerToken(name):
			return "", fmt.Errorf("%q is not a header name", name)
		case kind == headerFraming, kind == headerMetadata, kind == headerIdempotency, folded == "host":
			return "", fmt.Errorf("%s cannot be set", name)
		}
		return folded, nil
	})
}

// setQuery takes the parameters that the worker adds.
func (e *entry) setQuery(query map[string]string) error {
	return e.setAdded("query", query, &e.params, func(name string) (string, error) {
		if !addedName(name, "-._~$:@[]") {
			return "", fmt.Errorf("%q is not a parameter name; use letters, digits and -._~$:@[]", name)
		}
		return string(foldParam([]byte(name))), nil
	})
}

// setBody takes the members that the worker adds to a JSON object.
func (e *entry) setBody(body map[string]string) error {
	return e.setAdded("body", body, &e.members, func(name string) (string, error) {
		if !addedName(name, "-._~$:@[]/+# ") {
			return "", fmt.Errorf("%q is not a member name; use letters, digits, spaces and -._~$:@[]/+#", name)
		}
		return name, nil
	})
}

// setAdded takes the names of what the worker adds, as fold has them. Two names that differ by case
// alone are one to some readers.
func (e *entry) setAdded(key string, added map[string]string, to *[]string, fold func(name string) (string, error)) error {
	if err := e.mayAdd(key, added); err != nil {
		return err
	}
	for name, value := range added {
		folded, err := fold(name)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", key, err)
		case containsFold(*to, folded):
			return fmt.Errorf("%s: %s appears twice", key, name)
		case key == "headers" && IsTrace(name, value):
		default:
			if err := checkAdded(key, name, value); err != nil {
				return err
			}
		}
		*to = append(*to, folded)
	}
	slices.Sort(*to)
	return nil
}

func containsFold(list []string, name string) bool {
	return slices.ContainsFunc(list, func(own string) bool { return strings.EqualFold(own, name) })
}

// mayAdd checks added values against the breadth of the entry: it must cover one host and no other.
func (e *entry) mayAdd(key string, added map[string]string) error {
	switch {
	case len(added) == 0:
		return nil
	case e.Any || strings.HasPrefix(e.Host, "."):
		return errors.New(key + ": an entry for any host would send them to any host")
	case len(added) > maxAdded:
		return fmt.Errorf("%s: there are more than %d", key, maxAdded)
	}
	return nil
}

// TracePlaceholder is replaced by the span of the call, as the value of the header traceparent and
// nowhere else.
const TracePlaceholder = "${trace}"

// IsTrace reports whether a header that an entry adds passes the call's span to the target. A call
// without a span does not have it.
func IsTrace(name, value string) bool {
	return value == TracePlaceholder && strings.EqualFold(name, "traceparent")
}

// checkAdded checks a value by the rule of headers, wherever it goes.
func checkAdded(key, name, value string) error {
	switch {
	case !redact.Printable(value) || len(value) > maxHeaderValue:
		return fmt.Errorf("%s: the value of %s is not printable ASCII of at most %d bytes", key, name, maxHeaderValue)
	case !placeholder.Strict(value):
		return fmt.Errorf("%s: the value of %s has a placeholder that is not ${secret:NAME}", key, name)
	}
	return nil
}

// addedName holds for letters, digits and the characters of others.
func addedName(s, others string) bool {
	return len(s) <= maxAddedName && strings.TrimSpace(s) != "" && strings.Trim(s, alphanumeric+others) == ""
}

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
func checkMembers(e *entry, method string, r *Request) denial {
	switch {
	case len(e.members) == 0:
		return nil
	case !r.HasBody:
		if once(method) || method == "PUT" {
			return deniedBodyMissing
		}
		return nil
	case r.Upload:
		return deniedBodyPassed
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
