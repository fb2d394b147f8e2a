package jsonschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// What a schema may hold. The library looks subschemas up in a list while it
// compiles and names each by its full pointer, so that it costs the square of
// their number and the product of that and the pointers' length.
const (
	maxBytes    = 256 << 10
	maxDepth    = 64
	maxObjects  = 4096    // objects and booleans: all that may be subschemas
	maxPointers = 4 << 20 // bytes of all their pointers together
	maxRefs     = 512     // different targets of references
	// maxDigits and maxExponent bound numbers here and in instances: numbers are
	// compared exactly, and 1e999999 is one with a million digits.
	maxDigits   = 512
	maxExponent = 512
)

var (
	errDepth  = fmt.Errorf("is nested more than %d levels deep", maxDepth)
	errNumber = errors.New("holds a number that is too large or too long to be compared exactly")
)

// inspector walks a schema before the library sees it.
type inspector struct {
	objects, pointers int
	refs              map[string]struct{}
}

func inspect(doc any) error {
	in := &inspector{refs: make(map[string]struct{})}
	return in.value(doc, 0, 0)
}

// value inspects what may be a schema, a list of schemas, or neither. Reach is
// the length of its pointer.
func (in *inspector) value(v any, depth, reach int) error {
	if depth > maxDepth {
		return ofSchema(errDepth)
	}
	switch v := v.(type) {
	case map[string]any:
		if err := in.count(reach); err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := in.member(key, v[key], depth, reach+len(key)+1); err != nil {
				return err
			}
		}
	case []any:
		for i, item := range v {
			if err := in.value(item, depth+1, reach+1+len(strconv.Itoa(i))); err != nil {
				return err
			}
		}
	case bool:
		return in.count(reach)
	case json.Number:
		return ofSchema(checkNumber(v))
	}
	return nil
}

func (in *inspector) count(reach int) error {
	in.objects++
	in.pointers += reach
	if in.objects > maxObjects || in.pointers > maxPointers {
		return errors.New("the schema has too many parts")
	}
	return nil
}

// member inspects one keyword of a schema.
func (in *inspector) member(key string, v any, depth, reach int) error {
	text, isText := v.(string)
	switch key {
	case "$ref", "$dynamicRef":
		if isText {
			return in.ref(key, text)
		}
	case "$schema":
		if isText && strings.TrimSuffix(text, "#") != Draft {
			return errors.New("$schema must be " + Draft + ": no other dialect is supported")
		}
	case "$id":
		if isText {
			return errors.New("$id is allowed at the root of the schema only")
		}
	case "const", "enum", "default", "examples", "dependentRequired":
		return data(v, depth+1)
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
		if named, ok := v.(map[string]any); ok {
			return in.named(named, depth+1, reach)
		}
	}
	return in.value(v, depth+1, reach)
}

// named inspects schemas under names that are not keywords.
func (in *inspector) named(m map[string]any, depth, reach int) error {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if err := in.value(m[name], depth+1, reach+len(name)+1); err != nil {
			return err
		}
	}
	return nil
}

func (in *inspector) ref(key, target string) error {
	if !strings.HasPrefix(target, "#") {
		return fmt.Errorf("%s must begin with '#': a schema may not refer to other documents", key)
	}
	in.refs[target] = struct{}{}
	if len(in.refs) > maxRefs {
		return fmt.Errorf("the schema has references to more than %d places", maxRefs)
	}
	return nil
}

// data inspects plain data inside a schema.
func data(v any, depth int) error {
	return ofSchema(bounded(v, depth))
}

func ofSchema(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the schema %w", err)
}

// inspectInstance refuses what makes the library's arithmetic or recursion
// expensive whatever the schema.
func inspectInstance(v any) error { return bounded(v, 0) }

func bounded(v any, depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	switch v := v.(type) {
	case map[string]any:
		for _, item := range v {
			if err := bounded(item, depth+1); err != nil {
				return err
			}
		}
	case []any:
		for _, item := range v {
			if err := bounded(item, depth+1); err != nil {
				return err
			}
		}
	case json.Number:
		return checkNumber(v)
	}
	return nil
}

func checkNumber(n json.Number) error {
	digits, exponent, _ := strings.Cut(strings.ToLower(n.String()), "e")
	if len(digits) <= maxDigits {
		if exponent == "" {
			return nil
		}
		if e, err := strconv.Atoi(exponent); err == nil && -maxExponent <= e && e <= maxExponent {
			return nil
		}
	}
	return errNumber
}
