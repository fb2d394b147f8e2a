package jsonschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The limits of a schema. The library searches a list of subschemas while it
// compiles and names each by its full pointer, so that the cost is the square of
// their number, and the product of that and the length of the pointers.
const (
	maxBytes    = 256 << 10
	maxDepth    = 64
	maxObjects  = 4096    // objects and booleans: all that may be subschemas
	maxPointers = 4 << 20 // bytes of all their pointers together
	maxRefs     = 512     // different targets of references
	// maxDigits and maxExponent bound numbers of schemas and documents: numbers
	// are compared exactly, and 1e999999 is a number of a million digits.
	maxDigits   = 512
	maxExponent = 512
)

var (
	errBytes  = fmt.Errorf("the schema is larger than %d bytes", maxBytes)
	errDepth  = fmt.Errorf("is nested more than %d levels deep", maxDepth)
	errNumber = errors.New("holds a number that is too large or too long to be compared exactly")
)

// role is the meaning of a value inside a schema.
type role byte

const (
	schema role = iota // a schema, a list of schemas, or a value of another keyword
	named              // schemas under names that are not keywords
	data               // plain data: only depth and numbers count
)

// inspector bounds a value before the library reads it.
type inspector struct {
	subject           string // begins the errors about depth and numbers
	objects, pointers int
	refs              map[string]struct{}
}

// value inspects a value at a depth; reach is the length of its pointer.
func (in *inspector) value(v any, as role, depth, reach int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s %w", in.subject, errDepth)
	}
	switch v := v.(type) {
	case map[string]any:
		return in.object(v, as, depth, reach)
	case []any:
		for i, item := range v {
			if err := in.value(item, as, depth+1, reach+1+len(strconv.Itoa(i))); err != nil {
				return err
			}
		}
	case bool:
		return in.count(as, reach)
	case json.Number:
		if !exact(v) {
			return fmt.Errorf("%s %w", in.subject, errNumber)
		}
	}
	return nil
}

func (in *inspector) object(v map[string]any, as role, depth, reach int) error {
	if err := in.count(as, reach); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(v)) { // of several errors, always the same one
		inner, err := schema, error(nil)
		switch as {
		case data:
			inner = data
		case schema:
			inner, err = in.keyword(name, v[name])
		case named:
		}
		if err == nil {
			err = in.value(v[name], inner, depth+1, reach+len(name)+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (in *inspector) count(as role, reach int) error {
	if as != schema {
		return nil
	}
	in.objects++
	in.pointers += reach
	if in.objects > maxObjects || in.pointers > maxPointers {
		return errors.New("the schema has too many parts")
	}
	return nil
}

// keyword inspects one member of a schema and returns the role of its value.
func (in *inspector) keyword(key string, v any) (role, error) {
	switch v := v.(type) {
	case string:
		return data, in.text(key, v)
	case map[string]any:
		switch key {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			return named, nil
		}
	}
	switch key {
	case "const", "enum", "default", "examples", "dependentRequired":
		return data, nil
	}
	return schema, nil
}

// text inspects a keyword whose value is a string.
func (in *inspector) text(key, v string) error {
	switch key {
	case "$ref", "$dynamicRef":
		if !strings.HasPrefix(v, "#") {
			return fmt.Errorf("%s must begin with '#': a schema may not refer to other documents", key)
		}
		in.refs[v] = struct{}{}
		if len(in.refs) > maxRefs {
			return fmt.Errorf("the schema has references to more than %d places", maxRefs)
		}
	case "$schema":
		if strings.TrimSuffix(v, "#") != Draft {
			return errors.New("$schema must be " + Draft + ": no other dialect is supported")
		}
	case "$id":
		return errors.New("$id is allowed at the root of the schema only")
	}
	return nil
}

// exact reports whether a number can be compared exactly at little cost.
func exact(n json.Number) bool {
	digits, _, _ := strings.Cut(strings.ToLower(n.String()), "e")
	e := exponent(n)
	return len(digits) <= maxDigits && -maxExponent <= e && e <= maxExponent
}

// exponent returns the exponent of a number as written. If it is too large for an int, exponent
// returns the largest.
func exponent(n json.Number) int {
	_, text, found := strings.Cut(strings.ToLower(n.String()), "e")
	if !found {
		return 0
	}
	e, err := strconv.Atoi(text)
	if err != nil {
		return math.MaxInt
	}
	return e
}
