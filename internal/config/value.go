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

// Size is a number of bytes. In text it is a whole number, followed by KiB, MiB, GiB or TiB, or by
// nothing for bytes.
type Size int64

var errSize = errors.New("is not a size; " + form(reflect.TypeFor[Size]()))

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	for shift, unit := range []string{"", "KiB", "MiB", "GiB", "TiB", "B"} {
		factor := int64(1) << (shift % 5 * 10)
		digits, ok := strings.CutSuffix(string(text), unit)
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if ok && err == nil && 0 <= n && n <= math.MaxInt64/factor {
			*s = Size(n * factor)
			return nil
		}
	}
	return errSize
}

// USD is an amount of US dollars, in billionths of one. In text it is a decimal number without a
// sign, such as 12.5, with at most nine digits after the point.
type USD int64

var errUSD = errors.New("is not an amount of US dollars")

// UnmarshalText implements encoding.TextUnmarshaler.
func (u *USD) UnmarshalText(text []byte) error {
	whole, fraction, point := strings.Cut(string(text), ".")
	if whole == "" || len(whole) > 9 || point && fraction == "" || len(fraction) > 9 {
		return errUSD
	}
	n, err := strconv.ParseUint(whole+fraction+strings.Repeat("0", 9-len(fraction)), 10, 63)
	*u = USD(n) //nolint:gosec // of 63 bits
	return err
}

// setText reads text into a scalar and reports whether it has the scalar's form.
func setText(v reflect.Value, text string) bool {
	if u, ok := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr()); ok {
		return u.UnmarshalText([]byte(text)) == nil
	}
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(text)
		v.SetInt(int64(d))
		return err == nil
	case v.Kind() == reflect.String:
		v.SetString(text)
		return true
	case v.Kind() == reflect.Bool:
		v.SetBool(text == "true")
		return text == "true" || text == "false"
	default:
		n, err := strconv.ParseInt(text, 10, 64)
		v.SetInt(n)
		return err == nil && !v.OverflowInt(n)
	}
}

// form is what an operator writes for a scalar of a type.
func form(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "write a duration in ms, s, m or h, such as 30s or 168h"
	case t == reflect.TypeFor[Size]():
		return "write a whole number of bytes, or one with KiB, MiB, GiB or TiB, such as 256KiB"
	case t == reflect.TypeFor[USD]():
		return "write an amount of US dollars such as 12 or 2.5, with at most nine digits after the point"
	case t.Kind() == reflect.String:
		return "write text, in quotes where it looks like something else"
	case t.Kind() == reflect.Bool:
		return "write true or false"
	default:
		return "write a whole number of at most 18 digits, without quotes"
	}
}

// short prints a duration without the zero units that time.Duration has.
func short(d time.Duration) string {
	return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(d.String())
}
