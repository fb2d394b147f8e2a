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
	p, list := &Postcondition{}, raw
	switch kind := first(raw); {
	case kind != '[' && kind != '{':
		return nil, invalid("must be an object or a list")
	case !json.Valid(raw):
		return nil, invalid("is not valid JSON")
	case kind == '{':
		var members map[string]json.RawMessage
		_ = json.Unmarshal(raw, &members) // it is a valid object
		list = members["assertions"]
		switch {
		case list == nil && members["type"] == nil:
			return nil, &Error{Variant: schemas.VariantUnsupportedPostcondition, Message: "must have a type, or a list of assertions"}
		case list == nil:
			a, err := parseAssertion(raw)
			if err != nil {
				return nil, err
			}
			return &Postcondition{assertions: []assertion{a}}, nil
		case first(list) != '[':
			return nil, invalid("assertions must be a list")
		}
		if delete(members, "assertions"); len(members) > 0 {
			p.metadata = schemas.Encoded(members)
		}
	}
	var items []json.RawMessage
	_ = json.Unmarshal(list, &items) // as above
	if len(items) == 0 {
		return nil, invalid("must have at least one assertion")
	}
	if len(items) > maxAssertions {
		return nil, invalid(fmt.Sprintf("must have at most %d assertions", maxAssertions))
	}
	pages := 0
	for i, item := range items {
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
	return r.Passed, schemas.Encoded(r)
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
