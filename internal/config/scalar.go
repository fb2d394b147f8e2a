package config

import (
	"encoding"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes. In text it is a whole number, with KiB, MiB, GiB
// or TiB behind it or nothing for bytes.
type Size int64

var errSize = errors.New("is not a size; write a whole number of bytes, or one with KiB, MiB, GiB or TiB, such as 256KiB")

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	digits := strings.TrimRight(string(text), "BKMGTi")
	factor := int64(1)
	switch string(text[len(digits):]) {
	case "", "B":
	case "KiB":
		factor = 1 << 10
	case "MiB":
		factor = 1 << 20
	case "GiB":
		factor = 1 << 30
	case "TiB":
		factor = 1 << 40
	default:
		return errSize
	}
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/factor {
		return errSize
	}
	*s = Size(n * factor)
	return nil
}

// MarshalText implements encoding.TextMarshaler: the largest unit that leaves a
// whole number.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String is the form that UnmarshalText reads.
func (s Size) String() string {
	for _, unit := range []struct {
		factor Size
		name   string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if s != 0 && s%unit.factor == 0 {
			return strconv.FormatInt(int64(s/unit.factor), 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

var (
	errDuration = errors.New("is not a duration; write a number with ms, s, m or h behind it, such as 30s or 168h")
	errInt      = errors.New("is not a whole number")
	errRange    = errors.New("is too large a number")
	errBool     = errors.New("is neither true nor false")
)

// isScalar reports whether setText can fill the type.
func isScalar(t reflect.Type) bool {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return true
	}
	v := reflect.Zero(t)
	return v.Kind() == reflect.String || v.Kind() == reflect.Bool || v.CanInt() || v.CanUint()
}

// setText reads text into a scalar. Its errors hold nothing of the text.
func setText(v reflect.Value, text string) error {
	if u, ok := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr()); ok {
		return u.UnmarshalText([]byte(text))
	}
	if v.Type() == reflect.TypeFor[time.Duration]() {
		d, err := time.ParseDuration(text)
		if err != nil {
			return errDuration
		}
		v.SetInt(int64(d))
		return nil
	}
	switch {
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		if text != "true" && text != "false" {
			return errBool
		}
		v.SetBool(text == "true")
	case v.CanInt():
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return errInt
		}
		if v.OverflowInt(n) {
			return errRange
		}
		v.SetInt(n)
	case v.CanUint():
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return errInt
		}
		if v.OverflowUint(n) {
			return errRange
		}
		v.SetUint(n)
	default:
		return errInt
	}
	return nil
}
