package postcondition

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/big"
	"slices"
	"strings"
)

var errNotJSON = errors.New("not JSON")

// decode reads one JSON document, its numbers as they are written.
func decode(raw json.RawMessage) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return nil, errNotJSON
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errNotJSON
	}
	return v, nil
}

// equal compares two decoded documents; numbers by their value.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, equal)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && sameNumber(a, b)
	default:
		return a == b
	}
}

// mostDigits bounds a number that is compared by its value, and its exponent has three digits at most:
// 1e9999 costs ten times as much as 1e999. Other numbers are compared as they are written.
const mostDigits = 4096

// parseNumber reads a JSON number; ok is false for anything else, and for a number beyond these bounds.
func parseNumber(s string) (r *big.Rat, ok bool) {
	s = strings.TrimSpace(s)
	_, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') || len(s) > mostDigits || len(strings.TrimLeft(exponent, "+-0")) > 3 || !json.Valid([]byte(s)) {
		return nil, false
	}
	return new(big.Rat).SetString(s)
}

func sameNumber(a, b json.Number) bool {
	x, okX := parseNumber(a.String())
	y, okY := parseNumber(b.String())
	return a == b || okX && okY && x.Cmp(y) == 0
}
