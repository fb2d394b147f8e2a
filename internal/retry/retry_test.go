package retry_test

import (
	"encoding/json"
	"math"
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
	const year = 365 * 24 * time.Hour
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
