package retry

import (
	"strconv"
	"strings"
	"time"
)

// maxAfter keeps a wish that no deadline could honour inside time.Duration.
const maxAfter = 365 * 24 * time.Hour

// ParseRetryAfter reads a Retry-After field (RFC 9110, 10.2.3): seconds in plain digits, or a date
// in one of the three HTTP forms, which needs now. A date in the past is a zero wait; more than a
// year is a year. ok is false for anything else: signs, fractions, exponents, several values.
func ParseRetryAfter(value string, now time.Time) (wait time.Duration, ok bool) {
	value = strings.Trim(value, " \t")
	if digits(value) {
		seconds, err := strconv.ParseUint(value, 10, 64)
		if err != nil || seconds > uint64(maxAfter/time.Second) {
			return maxAfter, true // more digits than fit is only a long wait
		}
		return time.Duration(seconds) * time.Second, true
	}
	at, ok := parseDate(value, now)
	if !ok {
		return 0, false
	}
	return min(max(0, at.Sub(now)), maxAfter), true
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// rfc850 is the obsolete form with a year of two digits.
const rfc850 = "Monday, 02-Jan-06 15:04:05 GMT"

func parseDate(s string, now time.Time) (time.Time, bool) {
	for _, layout := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", rfc850, time.ANSIC} {
		at, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		if layout == rfc850 {
			at = nearCentury(at, now)
		}
		return at, true
	}
	return time.Time{}, false
}

// nearCentury moves a date whose year had two digits to the century that puts
// it within fifty years of now.
func nearCentury(at, now time.Time) time.Time {
	switch {
	case at.After(now.AddDate(50, 0, 0)):
		return at.AddDate(-100, 0, 0)
	case at.Before(now.AddDate(-50, 0, 0)):
		return at.AddDate(100, 0, 0)
	default:
		return at
	}
}
