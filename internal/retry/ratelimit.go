package retry

import (
	"fmt"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// Wish is how long an answer with a status asks its client to wait; zero: it does not say. fields
// gives the lines of a header. Retry-After counts whatever the status. The headers of rate limits
// count for 429 and 503 alone: RateLimit of the IETF's draft first, then X-RateLimit-Reset.
func Wish(status int, fields func(name string) []string, now time.Time) time.Duration {
	if v := fields("Retry-After"); len(v) == 1 {
		if wait, ok := ParseRetryAfter(v[0], now); ok {
			return wait
		}
	}
	if status != 429 && status != 503 {
		return 0
	}
	if wait, ok := ParseRateLimit(fields("RateLimit"), fields("RateLimit-Policy")); ok {
		return wait
	}
	remaining, reset := fields("X-RateLimit-Remaining"), fields("X-RateLimit-Reset")
	if len(remaining) != 1 || len(reset) != 1 {
		return 0
	}
	if left := textproto.TrimString(remaining[0]); left == "" || strings.Trim(left, "0") != "" {
		return 0
	}
	wait, _ := ParseReset(reset[0], now)
	return wait
}

// ParseRateLimit reads RateLimit and RateLimit-Policy, which are lists of structured fields (RFC 9651),
// such as "burst";r=0;t=30 and "burst";q=100;w=60. The wait is the longest one among the quotas that
// are used up (r=0): its t, or the window w of its policy. ok is false if none is used up, or none
// says how long it lasts.
func ParseRateLimit(limits, policies []string) (wait time.Duration, ok bool) {
	list, err := httpsfv.UnmarshalList(limits)
	if err != nil {
		return 0, false
	}
	windows := map[string]int64{}
	if named, err := httpsfv.UnmarshalList(policies); err == nil {
		for _, m := range named {
			if item, plain := m.(httpsfv.Item); plain {
				if w, has := whole(item, "w"); has {
					windows[fmt.Sprint(item.Value)] = w // a string or, from some senders, a token
				}
			}
		}
	}
	for _, m := range list {
		item, plain := m.(httpsfv.Item)
		if !plain {
			continue
		}
		seconds, has := whole(item, "t")
		if !has {
			seconds, has = windows[fmt.Sprint(item.Value)]
		}
		if r, used := whole(item, "r"); used && r == 0 && has {
			wait, ok = max(wait, bounded(seconds)), true
		}
	}
	return wait, ok
}

// whole is a parameter that is a whole number and not negative.
func whole(item httpsfv.Item, key string) (n int64, ok bool) {
	v, _ := item.Params.Get(key)
	n, ok = v.(int64)
	return n, ok && n >= 0
}

// The least values of X-RateLimit-Reset that are an instant, in seconds and in milliseconds since 1970.
// What is less is a wait in seconds.
const (
	leastEpoch      = 1_000_000_000
	leastEpochMilli = 100 * leastEpoch
)

// ParseReset reads the value of X-RateLimit-Reset: plain digits that are seconds to wait, or an
// instant in seconds or milliseconds since 1970. An instant in the past is a zero wait.
func ParseReset(value string, now time.Time) (wait time.Duration, ok bool) {
	value = textproto.TrimString(value)
	if !digits(value) {
		return 0, false
	}
	switch n, _ := strconv.ParseInt(value, 10, 64); { // of more digits than fit, the most that do
	case n < leastEpoch:
		return bounded(n), true
	case n < leastEpochMilli:
		return until(time.Unix(n, 0), now), true
	default:
		return until(time.UnixMilli(n), now), true
	}
}

// bounded is a number of seconds, which is not negative, as a wait.
func bounded(seconds int64) time.Duration {
	return time.Duration(min(seconds, int64(maxAfter/time.Second))) * time.Second
}

// maxAfter keeps a wish that no deadline could honour inside time.Duration.
const maxAfter = 365 * 24 * time.Hour

// ParseRetryAfter reads a Retry-After field (RFC 9110, 10.2.3): seconds in plain digits, or a date
// in one of the three HTTP forms, which needs now. A date in the past is a zero wait; more than a
// year is a year. ok is false for anything else: signs, fractions, exponents, several values.
func ParseRetryAfter(value string, now time.Time) (wait time.Duration, ok bool) {
	value = textproto.TrimString(value)
	if digits(value) {
		seconds, _ := strconv.ParseInt(value, 10, 64) // of more digits than fit, the most that do
		return bounded(seconds), true
	}
	for _, layout := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", "Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC} {
		if at, err := time.Parse(layout, value); err == nil {
			return until(at, now), true
		}
	}
	return 0, false
}

// until is the wait from now to an instant, none if that is past.
func until(at, now time.Time) time.Duration { return min(max(0, at.Sub(now)), maxAfter) }

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
