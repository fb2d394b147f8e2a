package postcondition

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
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

// decimal is a number in normal form: digits without zeros at either end, times
// a power of ten. It compares exactly, at no cost for 1e999999.
type decimal struct {
	negative bool
	digits   string // "" is zero
	exponent int
}

// parseNumber reads a JSON number; ok is false for anything else, and for an
// exponent of more than 48 bits.
func parseNumber(s string) (d decimal, ok bool) {
	s = strings.TrimSpace(s)
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') || !json.Valid([]byte(s)) {
		return d, false
	}
	s, d.negative = strings.CutPrefix(s, "-")
	mantissa := s
	if at := strings.IndexAny(s, "eE"); at >= 0 {
		e, err := strconv.ParseInt(s[at+1:], 10, 48)
		if err != nil {
			return d, false
		}
		mantissa, d.exponent = s[:at], int(e)
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	d.exponent -= len(fraction)
	d.digits = strings.TrimRight(digits, "0")
	d.exponent += len(digits) - len(d.digits)
	if d.digits == "" {
		return decimal{}, true
	}
	return d, true
}

func sameNumber(a, b json.Number) bool {
	x, okX := parseNumber(a.String())
	y, okY := parseNumber(b.String())
	return a == b || okX && okY && x == y
}
