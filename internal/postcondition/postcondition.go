// Package postcondition evaluates the assertions of a caller on an answer. It
// reads the stored form of the answer: after a crash, the result is the same.
package postcondition

import (
	"bytes"
	"encoding/json"
	"fmt"

	"weir/schemas"
)

// What bounds one postcondition. Each dom_contains reads the whole body.
const (
	maxAssertions = 100
	maxContains   = 16
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

// Parse reads a postcondition in any of its forms: a list of assertions; an
// object with "assertions", whose other members are its metadata; or a single
// assertion. It ignores members that an assertion's type does not use. The error
// is an *Error.
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
	if !ok {
		if members["type"] == nil {
			return nil, &Error{Variant: schemas.VariantUnsupportedPostcondition, Message: "must have a type, or a list of assertions"}
		}
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
	if len(members) > 0 {
		p.metadata = encode(members)
	}
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
		if a.kind == typeDOM {
			pages++
		}
		p.assertions = append(p.assertions, a)
	}
	if pages > maxContains {
		return nil, invalid(fmt.Sprintf("must have at most %d assertions of type dom_contains", maxContains))
	}
	return p, nil
}

// Evaluate checks every assertion on an answer. The report is a JSON document
// that shows no string of the answer or of the expected values.
func (p *Postcondition) Evaluate(a schemas.Answer) (passed bool, report json.RawMessage) {
	kept := newAnswer(a)
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
	if raw = bytes.TrimLeft(raw, " \t\r\n"); len(raw) > 0 {
		return raw[0]
	}
	return 0
}
