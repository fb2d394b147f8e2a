package jsonschema

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
)

// kinds is a set of JSON types. An integer is a number here: the difference
// matters to a verdict, not to its cost.
type kinds byte

const (
	null kinds = 1 << iota
	boolean
	number
	text
	array
	object
)

func kindNamed(name string) kinds {
	switch name {
	case "null":
		return null
	case "boolean":
		return boolean
	case "number", "integer":
		return number
	case "string":
		return text
	case "array":
		return array
	default:
		return object
	}
}

func kindOf(v any) kinds {
	switch v.(type) {
	case nil:
		return null
	case bool:
		return boolean
	case json.Number:
		return number
	case string:
		return text
	case []any:
		return array
	default:
		return object
	}
}

// measure is the size of a value in small values: a text counts by its length,
// a number by its digits.
func measure(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for name, item := range v {
			n += 1 + len(name)/512 + measure(item)
		}
	case []any:
		for _, item := range v {
			n += measure(item)
		}
	case string:
		n += len(v) / 512
	case json.Number:
		n += len(v) / 8
	}
	return n
}

// arithmetic is what comparing a number with the schema's costs: exact numbers
// are as long as their exponents are large.
func (n *node) arithmetic(v json.Number) int {
	_, exponent, _ := strings.Cut(strings.ToLower(v.String()), "e")
	e, _ := strconv.Atoi(exponent) // 0 where there is none; checked before
	if e < 0 {
		e = -e
	}
	if !n.numeric {
		return e / 128
	}
	return 1 + len(v)/8 + e/16
}

// ratBytes are the magnitudes of a number's numerator and denominator.
func ratBytes(n json.Number) (num, denom []byte) {
	r, ok := new(big.Rat).SetString(n.String())
	if !ok {
		return nil, nil
	}
	return r.Num().Bytes(), r.Denom().Bytes()
}
