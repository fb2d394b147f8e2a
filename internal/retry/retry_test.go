package retry_test

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/retry"
	"weir/schemas"
)

var classes = []schemas.Class{
	schemas.ClassSafe, schemas.ClassIdempotent, schemas.ClassKeyed, schemas.ClassOnce, "", "unheard-of",
}

// again holds the whole rule of Retryable for answers and failed calls, written down apart from it.
var again = map[schemas.Class]struct{ answered, lost bool }{
	schemas.ClassSafe:       {answered: true, lost: true},
	schemas.ClassIdempotent: {answered: true, lost: true},
	schemas.ClassKeyed:      {answered: true, lost: true},
}

// TestRetryableStatus: a list of statuses replaces the standard one, and makes nothing repeatable that
// its class forbids.
func TestRetryableStatus(t *testing.T) {
	t.Parallel()
	for _, class := range classes {
		for status := -1; status <= 601; status++ {
			transient := status == 429 || status/100 == 5
			require.Equal(t, transient && again[class].answered, retry.Retryable(class, status, nil, nil), "class %q status %d", class, status)
			listed := status == 409 || status == 503
			require.Equal(t, listed && again[class].answered, retry.Retryable(class, status, []int{409, 503}, nil), "class %q status %d", class, status)
		}
	}
}

// TestRetryableCall: once is never repeated after it was sent, and no list says anything of a failed call.
func TestRetryableCall(t *testing.T) {
	t.Parallel()
	heals := map[schemas.Code]bool{
		schemas.UpstreamConnect: true, schemas.UpstreamTLS: true, schemas.UpstreamTimeout: true,
		schemas.UpstreamReset: true, schemas.UpstreamProtocol: true, schemas.UpstreamTruncated: true, schemas.Interrupted: true,
	}
	codes := append(schemas.SettleCodes(), schemas.IngressCodes()...)
	for _, class := range classes {
		for _, code := range append(codes, "", "UNHEARD_OF") {
			for _, sent := range []bool{false, true} {
				for _, status := range []int{0, 200, 409, 429, 503} {
					want := heals[code] && (!sent || again[class].lost)
					for _, on := range [][]int{nil, {409, 503}} {
						got := retry.Retryable(class, status, on, &fault.Call{Code: code, Sent: sent, Status: status})
						require.Equal(t, want, got, "class %q code %s sent %v status %d", class, code, sent, status)
					}
				}
			}
		}
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	s := retry.Default()
	for _, c := range []struct {
		attempt int
		rnd     float64
		after   time.Duration
		want    time.Duration
	}{
		{1, 0, 0, 200 * ms},
		{2, 0, 0, 400 * ms},
		{3, 0, 0, 800 * ms},
		{4, 0, 0, 1600 * ms},
		{5, 0, 0, 2000 * ms},
		{6, 0, 0, 2000 * ms},
		{math.MaxInt, 0, 0, 2000 * ms},
		{0, 0, 0, 200 * ms},
		{-7, 0, 0, 200 * ms},
		{1, 0.5, 0, 225 * ms},
		{2, 1, 0, 500 * ms},
		{9, 1, 0, 2500 * ms},
		{1, 7, 0, 250 * ms},
		{1, -1, 0, 200 * ms},
		{1, math.NaN(), 0, 200 * ms},
		{1, math.Inf(1), 0, 250 * ms},
		{1, 0, 199 * ms, 200 * ms},
		{1, 0, 3 * time.Second, 3 * time.Second},
		{1, 1, 3 * time.Second, 3 * time.Second},
		{1, 0, -time.Hour, 200 * ms},
	} {
		assert.Equal(t, c.want, s.Delay(c.attempt, c.rnd, c.after), "%+v", c)
	}
	assert.Zero(t, retry.Schedule{}.Delay(3, 0.5, 0))
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status            int
		code              schemas.Code
		want, kind, label string
	}{
		{503, "", `{"status":503}`, "status", "503"},
		{429, "", `{"status":429}`, "status", "429"},
		{0, schemas.UpstreamTimeout, `"timeout"`, "timeout", ""},
		{0, schemas.UpstreamConnect, `"connect"`, "connect", ""},
		{0, schemas.UpstreamDNS, `"connect"`, "connect", ""},
		{0, schemas.UpstreamTLS, `"connect"`, "connect", ""},
		{200, schemas.UpstreamTruncated, `{"other":"UPSTREAM_TRUNCATED"}`, "other", ""},
		{0, schemas.UpstreamReset, `{"other":"UPSTREAM_RESET"}`, "other", ""},
	} {
		assert.Equal(t, c.want, string(retry.Outcome(c.status, c.code)))
		kind, label := retry.Kind(c.status, c.code)
		assert.Equal(t, []string{c.kind, c.label}, []string{kind, label})
	}
	for _, code := range schemas.SettleCodes() {
		require.True(t, json.Valid(retry.Outcome(0, code)), code)
	}
}

func TestParseRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		value string
		want  time.Duration
		ok    bool
	}{
		{"0", 0, true},
		{"1", time.Second, true},
		{" 120\t", 2 * time.Minute, true},
		{"007", 7 * time.Second, true},
		{"99999999", year, true},
		{"18446744073709551616", year, true},
		{"Sat, 21 Nov 2026 12:00:30 GMT", 30 * time.Second, true},
		{"Saturday, 21-Nov-26 12:01:00 GMT", time.Minute, true},
		{"Sat Nov 21 12:00:05 2026", 5 * time.Second, true},
		{"Wed, 21 Oct 1915 07:28:00 GMT", 0, true},
		{"Wed, 21 Oct 9999 07:28:00 GMT", year, true},
		{"", 0, false},
		{"-1", 0, false},
		{"+1", 0, false},
		{"1.5", 0, false},
		{"1e9", 0, false},
		{"0x10", 0, false},
		{"1, 2", 0, false},
		{"١", 0, false},
		{"soon", 0, false},
		{"Sat, 21 Nov 2026 12:00:30 CET", 0, false},
	} {
		wait, ok := retry.ParseRetryAfter(c.value, now)
		assert.Equal(t, c.ok, ok, "%q", c.value)
		assert.Equal(t, c.want, wait, "%q", c.value)
	}
	for year, want := range map[int]time.Duration{2060: time.Minute, 1975: time.Minute} {
		at := time.Date(year, 3, 5, 6, 7, 8, 0, time.UTC)
		wait, ok := retry.ParseRetryAfter(at.Add(want).Format("Monday, 02-Jan-06 15:04:05 GMT"), at)
		assert.True(t, ok)
		assert.Equal(t, want, wait, "year %d", year)
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, seed := range []string{"", "1", "99999999999999999999", "1e9", "Sat, 21 Nov 2026 12:00:30 GMT", "Saturday, 21-Nov-26 12:01:00 GMT", "Sat Nov 21 12:00:05 2026"} {
		f.Add(seed, int64(1795262400))
	}
	f.Fuzz(func(t *testing.T, value string, unix int64) {
		wait, ok := retry.ParseRetryAfter(value, time.Unix(unix%(1<<40), 0).UTC())
		if wait < 0 || wait > 365*24*time.Hour || !ok && wait != 0 {
			t.Fatalf("%q: %v %v", value, wait, ok)
		}
	})
}

const year = 365 * 24 * time.Hour

func TestParseRateLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limits, policies []string
		want             time.Duration
		ok               bool
	}{
		{[]string{`"default";r=0;t=30`}, nil, 30 * time.Second, true},
		{[]string{`default;r=0;t=30`}, nil, 30 * time.Second, true},
		{[]string{`"a";r=0;t=0`}, nil, 0, true},
		{[]string{`"a";r=0;t=30, "b";r=0;t=90, "c";r=5;t=900`}, nil, 90 * time.Second, true},
		{[]string{`"a";r=0;t=30`, `"b";r=0;t=90`}, nil, 90 * time.Second, true},
		{[]string{`"day";r=0`}, []string{`"burst";q=5;w=60, "day";q=100;w=86400`}, 24 * time.Hour, true},
		{[]string{`"day";r=0;t=7`}, []string{`"day";q=100;w=86400`}, 7 * time.Second, true},
		{[]string{`"day";r=0;t=99999999999`}, nil, year, true},
		{[]string{`"day";r=0;pk=:YWJj:;t=1;x="y"`}, nil, time.Second, true},
		{[]string{`"day";r=0`}, nil, 0, false},
		{[]string{`"day";r=0`}, []string{`"other";w=60`}, 0, false},
		{[]string{`"day";r=1;t=30`}, nil, 0, false},
		{[]string{`"day";t=30`}, nil, 0, false},
		{[]string{`"day";r=0;t=-30`}, nil, 0, false},
		{[]string{`"day";r=0;t=1.5`}, nil, 0, false},
		{[]string{`"day";r=0;t=?1`}, nil, 0, false},
		{[]string{`("day" "burst");r=0;t=30`}, nil, 0, false},
		{[]string{`limit=100, remaining=0, reset=5`}, nil, 0, false},
		{[]string{`"day;r=0;t=30`}, nil, 0, false},
		{[]string{""}, nil, 0, false},
		{nil, []string{`"day";w=60`}, 0, false},
	} {
		wait, ok := retry.ParseRateLimit(c.limits, c.policies)
		assert.Equal(t, c.ok, ok, "%q", c.limits)
		assert.Equal(t, c.want, wait, "%q", c.limits)
	}
}

func TestParseReset(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := now.Add(40 * time.Second)
	for value, want := range map[string]time.Duration{
		"0": 0, "\t17": 17 * time.Second, "0017": 17 * time.Second, "999999999": year, "1000000000": 0,
		strconv.FormatInt(at.Unix(), 10): 40 * time.Second, strconv.FormatInt(at.UnixMilli(), 10): 40 * time.Second,
		strconv.FormatInt(now.Unix()-1, 10): 0, "9999999999": year, "99999999999999999999": year, "9223372036854775807": year,
	} {
		wait, ok := retry.ParseReset(value, now)
		assert.True(t, ok, value)
		assert.Equal(t, want, wait, value)
	}
	for _, value := range []string{"", "-1", "1.5", "1s", "soon", "1, 2", "١", "2026-11-21T12:00:00Z"} {
		_, ok := retry.ParseReset(value, now)
		assert.False(t, ok, value)
	}
}

func TestWish(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		status int
		header string
		want   time.Duration
	}{
		{503, "Retry-After: 7", 7 * time.Second},
		{200, "Retry-After: 7", 7 * time.Second},
		{503, "Retry-After: Sat, 21 Nov 2026 12:00:30 GMT", 30 * time.Second},
		{429, "Retry-After: 7\nRateLimit: \"a\";r=0;t=30\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 60", 7 * time.Second},
		{429, "Retry-After: 0\nRateLimit: \"a\";r=0;t=30", 0},
		{429, "Retry-After: soon\nRateLimit: \"a\";r=0;t=30", 30 * time.Second},
		{429, "Retry-After: 1\nRetry-After: 2\nRateLimit: \"a\";r=0;t=30", 30 * time.Second},
		{429, "RateLimit: \"a\";r=0;t=30\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 60", 30 * time.Second},
		{503, "RateLimit: \"a\";r=0\nRateLimit-Policy: \"a\";q=1;w=9", 9 * time.Second},
		{429, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 60", time.Minute},
		{429, "X-RateLimit-Remaining:  0\nX-RateLimit-Reset: 1795262405", 5 * time.Second},
		{429, "X-RateLimit-Remaining: 5\nX-RateLimit-Reset: 60", 0},
		{429, "X-RateLimit-Remaining: \nX-RateLimit-Reset: 60", 0},
		{429, "X-RateLimit-Reset: 60", 0},
		{429, "X-RateLimit-Remaining: 0", 0},
		{429, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 60\nX-RateLimit-Reset: 60", 0},
		{200, "RateLimit: \"a\";r=0;t=30\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 60", 0},
		{500, "RateLimit: \"a\";r=0;t=30", 0},
		{429, "", 0},
	} {
		h := http.Header{}
		for line := range strings.SplitSeq(c.header, "\n") {
			name, value, _ := strings.Cut(line, ": ")
			h.Add(name, value)
		}
		assert.Equal(t, c.want, retry.Wish(c.status, h.Values, now), "%d %s", c.status, c.header)
	}
}

// FuzzWish: whatever a target sends, the wait is neither negative nor longer than a year, and what is
// no wait of any header is none at all.
func FuzzWish(f *testing.F) {
	for _, seed := range []string{`"a";r=0;t=30`, `"a";r=0;t=-30`, `a;r=0, b;r=0;t=999999999999999`, "limit=1", "1795262405", "1795262405000", "60", "\x00", strings.Repeat("9", 40)} {
		f.Add(429, "", seed, `"a";w=60`, "0", seed, int64(1795262400))
		f.Add(503, seed, "", "", "0", seed, int64(0))
	}
	f.Fuzz(func(t *testing.T, status int, after, limit, policy, remaining, reset string, unix int64) {
		if unix < 0 || unix > math.MaxInt32 {
			return
		}
		fields := map[string]string{
			"Retry-After": after, "RateLimit": limit, "RateLimit-Policy": policy, "X-RateLimit-Remaining": remaining, "X-RateLimit-Reset": reset,
		}
		lines := func(name string) []string { return []string{fields[name]} }
		wait := retry.Wish(status, lines, time.Unix(unix, 0).UTC())
		if wait < 0 || wait > year {
			t.Fatalf("%v", wait)
		}
		if status != 429 && status != 503 {
			want, _ := retry.ParseRetryAfter(after, time.Unix(unix, 0).UTC())
			if wait != want {
				t.Fatalf("status %d: %v, and Retry-After says %v", status, wait, want)
			}
		}
	})
}
