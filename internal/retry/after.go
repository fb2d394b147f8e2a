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
		seconds, _ := strconv.ParseInt(value, 10, 64) // of more digits than fit, the most that do
		return bounded(seconds), true
	}
	for _, layout := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", rfc850, time.ANSIC} {
		at, err := time.Parse(layout, value)
		switch {
		case err != nil:
			continue
		case layout != rfc850: // else the year is the one within fifty years of now
		case at.After(now.AddDate(50, 0, 0)):
			at = at.AddDate(-100, 0, 0)
		case at.Before(now.AddDate(-50, 0, 0)):
			at = at.AddDate(100, 0, 0)
		}
		return until(at, now), true
	}
	return 0, false
}

// until is the wait from now to an instant, none if that is past.
func until(at, now time.Time) time.Duration { return min(max(0, at.Sub(now)), maxAfter) }

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
