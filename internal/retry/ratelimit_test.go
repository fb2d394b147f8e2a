package retry_test

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"weir/internal/retry"
)

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
