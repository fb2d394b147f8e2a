package config

import (
	"errors"
	"strconv"
	"strings"
)

// USD is an amount of US dollars, in billionths of one. In text it is a decimal number
// without a sign, such as 12.5, with at most nine digits behind the point.
type USD int64

const dollar USD = 1_000_000_000

var errUSD = errors.New("is not an amount of US dollars; write a number such as 12 or 2.5, with at most nine digits behind the point")

// UnmarshalText implements encoding.TextUnmarshaler.
func (u *USD) UnmarshalText(text []byte) error {
	whole, fraction, point := strings.Cut(string(text), ".")
	if !allDigits(whole) || len(whole) > 9 || point && !allDigits(fraction) || len(fraction) > 9 {
		return errUSD
	}
	n, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", 9-len(fraction)), 10, 64)
	if err != nil {
		return errUSD
	}
	*u = USD(n)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (u USD) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// String is the form that UnmarshalText reads.
func (u USD) String() string {
	text := strconv.FormatInt(int64(u/dollar), 10)
	if rest := u % dollar; rest != 0 {
		digits := strconv.FormatInt(int64(dollar+rest), 10)[1:]
		text += "." + strings.TrimRight(digits, "0")
	}
	return text
}
