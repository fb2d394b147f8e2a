// Package postcondition holds an answer against what its caller wants to be true
// of it. It reads the answer as it is kept, so that a verdict can be repeated
// after a crash.
package postcondition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"weir/schemas"
)

// What bounds one postcondition. Each dom_contains reads the whole body.
const (
	maxAssertions = 100
	maxContains   = 16
)

// The types of assertion. Their kinds in a report are the same, but for kindPath.
const (
	typeStatus = "http_status"
	typePath   = "json_path"
	typeDOM    = "dom_contains"

	kindPath = "json_path_equals"
)

// Error says why a postcondition cannot be used.
type Error struct {
	// Variant is schemas.VariantInvalidPostcondition, or
	// schemas.VariantUnsupportedPostcondition for one of an unknown type, or an object
	// with neither a type nor assertions.
	Variant string
	Message string // a sentence for the caller
}

func (e *Error) Error() string { return e.Message }

// Supported reports whether the type is known, whatever else is wrong.
func (e *Error) Supported() bool { return e.Variant != schemas.VariantUnsupportedPostcondition }

// Postcondition is a list of assertions, all of which must hold. It is safe for
// concurrent use.
type Postcondition struct {
	assertions []assertion
	metadata   json.RawMessage // nil if there is none
}

// assertion is one check, compiled.
type assertion interface {
	check(a *answer) result
}

// Parse reads a postcondition in any of its forms: a list of assertions; an
// object with "assertions", whose other members are its metadata; or a single
// assertion. Members that an assertion's type does not know are passed over. The
// error is an *Error.
func Parse(raw json.RawMessage) (*Postcondition, error) {
	switch first(raw) {
	case '[':
		return parseList(raw)
	case '{':
		return parseObject(raw)
	default:
		return nil, invalid("must be an object or a list")
	}
}

func parseObject(raw json.RawMessage) (*Postcondition, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, invalid("is not valid JSON")
	}
	list, ok := members["assertions"]
	switch {
	case !ok && members["type"] == nil:
		return nil, &Error{Variant: schemas.VariantUnsupportedPostcondition, Message: "must have a type, or a list of assertions"}
	case !ok:
		a, err := parseAssertion(raw)
		if err != nil {
			return nil, err
		}
		return &Postcondition{assertions: []assertion{a}}, nil
	}
	if first(list) != '[' {
		return nil, invalid("assertions must be a list")
	}
	p, err := parseList(list)
	if err != nil {
		return nil, err
	}
	delete(members, "assertions")
	p.metadata = metadata(members)
	return p, nil
}

func parseList(raw json.RawMessage) (*Postcondition, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, invalid("is not valid JSON")
	}
	if len(list) == 0 {
		return nil, invalid("must have at least one assertion")
	}
	if len(list) > maxAssertions {
		return nil, invalid(fmt.Sprintf("must have at most %d assertions", maxAssertions))
	}
	p := &Postcondition{}
	pages := 0
	for i, item := range list {
		a, err := parseAssertion(item)
		if err != nil {
			err.Message = fmt.Sprintf("assertion %d: %s", i, err.Message)
			return nil, err
		}
		if _, ok := a.(domContains); ok {
			pages++
		}
		p.assertions = append(p.assertions, a)
	}
	if pages > maxContains {
		return nil, invalid(fmt.Sprintf("must have at most %d assertions of type dom_contains", maxContains))
	}
	return p, nil
}

// metadata writes the members in the order of their names, each value as it came.
func metadata(members map[string]json.RawMessage) json.RawMessage {
	if len(members) == 0 {
		return nil
	}
	var b bytes.Buffer
	for i, name := range slices.Sorted(maps.Keys(members)) {
		b.WriteByte("{,"[min(i, 1)])
		b.Write(encode(name))
		b.WriteByte(':')
		b.Write(members[name])
	}
	b.WriteByte('}')
	return b.Bytes()
}

// Evaluate holds an answer against every assertion. The report is a JSON
// document in which no string of the answer, or of what was expected, shows.
func (p *Postcondition) Evaluate(a schemas.Answer) (passed bool, report json.RawMessage) {
	kept := &answer{Answer: a}
	r := document{Passed: true, Assertions: make([]result, 0, len(p.assertions)), Metadata: p.metadata}
	for _, one := range p.assertions {
		res := one.check(kept)
		r.Passed = r.Passed && res.Status == statusPassed
		r.Assertions = append(r.Assertions, res)
	}
	return r.Passed, encode(r)
}

func invalid(message string) *Error {
	return &Error{Variant: schemas.VariantInvalidPostcondition, Message: message}
}

// first is the first byte that is not white space, or 0.
func first(raw []byte) byte {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return 0
	}
	return raw[0]
}
