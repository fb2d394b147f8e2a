package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/telemetry"
	"weir/internal/weirtest/logline"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// logKeys are all that a log line may have beside time, level and msg.
func logKeys() []string {
	return []string{
		"action_id", "addr", "at", "attempt", "code", "component", "count", "duration_ms", "durability", "entry", "err_kind",
		"kind", "method", "outcome", "partition", "policy_version", "request_id", "route", "seq", "status", "step", "stream", "subject", "surface",
		"tenant", "worker",
	}
}

// capture returns a JSON logger, what it wrote, and its counters.
func capture(t *testing.T) (*slog.Logger, *bytes.Buffer, func() (dropped, redacted string)) {
	t.Helper()
	m := telemetry.NewMetrics()
	var buf bytes.Buffer
	return m.NewLogger(&buf, "debug", telemetry.FormatJSON), &buf, func() (string, string) {
		series := scrape(t, m)
		return series["weir_log_dropped_attributes_total"], series["weir_log_redacted_messages_total"]
	}
}

// line decodes the one line in buf, without time and level.
func line(t *testing.T, buf *bytes.Buffer) map[string]any {
	t.Helper()
	require.Equal(t, 1, strings.Count(buf.String(), "\n"), buf.String())
	var got map[string]any
	require.NoError(t, json.Unmarshal(buf.Bytes(), &got))
	require.Contains(t, got, "time")
	require.Contains(t, got, "level")
	delete(got, "time")
	delete(got, "level")
	return got
}

func TestLoggerRefusesUnknownKeys(t *testing.T) {
	t.Parallel()
	log, buf, counts := capture(t)
	//nolint:sloglint // the point
	log.Info("event", "url", canary, "Tenant", "t", "tenant ", "t", "", canary, "msg", canary, "time", canary, "level", canary,
		"source", canary, "error", errors.New(canary), "tenant", "t1")
	require.Equal(t, map[string]any{"msg": "event", "tenant": "t1"}, line(t, buf))
	dropped, redacted := counts()
	require.Equal(t, "9", dropped)
	require.Equal(t, "0", redacted)
	buf.Reset()
	log.Info("event", []any{42, canary}...) // slog calls these !BADKEY
	require.Equal(t, map[string]any{"msg": "event"}, line(t, buf))
}

func TestLoggerGroupsAndWith(t *testing.T) {
	t.Parallel()
	type attrs = map[string]any
	type testCase struct {
		do      func(log *slog.Logger)
		want    attrs
		dropped string
	}
	table.Run(t, map[string]testCase{
		"with": {
			func(log *slog.Logger) {
				log.With("tenant", "t", "password", canary).With("worker", "w").Info("event", "kind", "http")
			},
			attrs{"tenant": "t", "worker": "w", "kind": "http"},
			"1",
		},
		"the last of a key counts":         {func(log *slog.Logger) { log.With("tenant", "a").Info("event", "tenant", "b", "tenant", "c") }, attrs{"tenant": "c"}, "0"},
		"a bad repeat leaves the good one": {func(log *slog.Logger) { log.With("tenant", "a").Info("event", "tenant", "b b") }, attrs{"tenant": "a"}, "1"},
		"a group":                          {func(log *slog.Logger) { log.Info("event", slog.Group("g", "tenant", "t")) }, attrs{}, "1"},
		"a group under an allowed key":     {func(log *slog.Logger) { log.Info("event", slog.Group("tenant", canary, canary)) }, attrs{}, "1"}, //nolint:sloglint // the point
		"an inlined group": {
			func(log *slog.Logger) {
				log.Info("event", slog.Group("", "tenant", "t", "secret", canary, slog.Group("", "worker", "w")))
			},
			attrs{"tenant": "t", "worker": "w"},
			"1",
		},
		"a group behind a valuer": {
			func(log *slog.Logger) {
				log.Info("event", "", valuer{slog.GroupValue(slog.String("tenant", "t"), slog.String("x", canary))})
			},
			attrs{"tenant": "t"},
			"1",
		},
		"after with group": {
			func(log *slog.Logger) {
				log.With("tenant", "t").WithGroup(canary).With("worker", "w").Info("event", "kind", "http", "seq", 1)
			},
			attrs{"tenant": "t"},
			"3",
		},
		"with group without a name": {func(log *slog.Logger) { log.WithGroup("").Info("event", "kind", "http") }, attrs{"kind": "http"}, "0"},
		"the empty attribute":       {func(log *slog.Logger) { log.LogAttrs(context.Background(), slog.LevelInfo, "event", slog.Attr{}) }, attrs{}, "0"},
		"siblings do not share": {
			func(log *slog.Logger) {
				base := log.With("tenant", "t", "worker", "w", "kind", "http")
				_ = base.With("seq", 1)
				base.With("count", 2).Info("event")
			},
			attrs{"tenant": "t", "worker": "w", "kind": "http", "count": 2.0},
			"0",
		},
	}, func(t *testing.T, tt testCase) {
		log, buf, counts := capture(t)
		tt.do(log)
		require.NotContains(t, buf.String(), canary)
		tt.want["msg"] = "event"
		require.Equal(t, tt.want, line(t, buf))
		dropped, _ := counts()
		require.Equal(t, tt.dropped, dropped)
	})
}

func TestLoggerMessages(t *testing.T) {
	t.Parallel()
	says := func(msg, want, wantRedacted string) {
		t.Helper()
		log, buf, counts := capture(t)
		log.Warn(msg) //nolint:sloglint // the point
		require.Equal(t, map[string]any{"msg": want}, line(t, buf))
		_, redacted := counts()
		require.Equal(t, wantRedacted, redacted)
	}
	for _, ok := range []string{"action settled", "broker.ready", "a", "retry-later 2 of 3", "sync_failed", strings.Repeat("a", 80)} {
		says(ok, ok, "0")
	}
	for _, bad := range []string{"", "Action settled", canary, "dial tcp 127.0.0.1:80", `get "x"`, "a\nb", "é", "a/b", strings.Repeat("a", 81)} {
		says(bad, "redacted message", "1")
	}
}

func TestLoggerLevels(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"debug": 4, "info": 3, "warn": 2, "error": 1, "nonsense": 3, "": 3} {
		var buf bytes.Buffer
		log := telemetry.NewMetrics().NewLogger(&buf, name, telemetry.FormatJSON)
		log.Debug("a")
		log.Info("a")
		log.Warn("a")
		log.Error("a")
		require.Equal(t, want, strings.Count(buf.String(), "\n"), name)
	}
}

func TestLoggerText(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	log := telemetry.NewMetrics().NewLogger(&buf, "info", telemetry.FormatText)
	log.Info("action settled", "action_id", "a1", "password", canary, "duration_ms", 1234567*time.Nanosecond)
	got := buf.String()
	require.Contains(t, got, `level=INFO msg="action settled" action_id=a1 duration_ms=1.235`+"\n")
	require.True(t, strings.HasPrefix(got, "time="))
	require.NotContains(t, got, canary)
}

// FuzzLogger: whatever is logged, and under whatever key, the line has keys and values of the closed sets.
func FuzzLogger(f *testing.F) {
	f.Add("event", "tenant", "t")
	f.Add("A\n", "duration_ms", "1")
	f.Add("", "addr", "1.2.3.4:5")
	f.Add("", "", "password")
	m, check := telemetry.NewMetrics(), logline.Checker()
	f.Fuzz(func(t *testing.T, msg, key, value string) {
		var buf bytes.Buffer
		log := m.NewLogger(&buf, "debug", telemetry.FormatJSON)
		//nolint:sloglint // the point
		log.With(value, key).LogAttrs(t.Context(), slog.LevelInfo, msg, slog.String(key, value), slog.Any(key, errors.New(value)), slog.Int("seq", len(value)), slog.Group(key, value, key))
		require.NoError(t, check(bytes.TrimSpace(buf.Bytes())), buf.String())
	})
}

const canary = "AGWCANARY-secret-0123456789abcdef"

func TestLoggerPassesWhatItsKeysAllow(t *testing.T) {
	t.Parallel()
	tests := []struct {
		key  string
		in   any
		want any
	}{
		{"action_id", "0190c3b2-7e2f-7c41-9a51-5b1d7f0b8a11", "0190c3b2-7e2f-7c41-9a51-5b1d7f0b8a11"},
		{"request_id", "req:1.a_B-2", "req:1.a_B-2"},
		{"tenant", "default", "default"},
		{"kind", schemas.KindHTTP, "http"},
		{"kind", "plan", "plan"},
		{"kind", schemas.EvidenceDecision, "policy.decision"},
		{"entry", "github", "github"},
		{"entry", "host:127.0.0.1", "host:127.0.0.1"},
		{"entry", "host:::1", "host:::1"},
		{"entry", "host:http://localhost:8080/", "host:http://localhost:8080/"},
		{"code", schemas.DenyAddress, "DENY_ADDRESS"},
		{"code", "INTERNAL", "INTERNAL"},
		{"outcome", schemas.OutcomeUnknown, "outcome_unknown"},
		{"status", 503, 503.0},
		{"status", 0, 0.0},
		{"status", "waiting", "waiting"},
		{"attempt", 3, 3.0},
		{"step", 0, 0.0},
		{"worker", "node-1", "node-1"},
		{"duration_ms", 12.5, 12.5},
		{"duration_ms", 1500 * time.Microsecond, 1.5},
		{"duration_ms", 7, 7.0},
		{"partition", 0, 0.0},
		{"seq", uint64(math.MaxUint32), float64(math.MaxUint32)},
		{"stream", "WEIR_LOG_0", "WEIR_LOG_0"},
		{"surface", "executor", "executor"},
		{"route", "/v1/actions/:id/events", "/v1/actions/:id/events"},
		{"route", "POST /v1/actions/{id}/cancel", "POST /v1/actions/{id}/cancel"},
		{"route", "/git/{repo}.git/info/refs", "/git/{repo}.git/info/refs"},
		{"route", "/console/*filepath", "/console/*filepath"},
		{"route", "/openapi.json", "/openapi.json"},
		{"route", "/", "/"},
		{"method", "POST", "POST"},
		{"component", "broker/embedded", "broker/embedded"},
		{"subject", "weir.log.*.event.>", "weir.log.*.event.>"},
		{"subject", "$JS.API.STREAM.CREATE.WEIR_LOG_0", "$JS.API.STREAM.CREATE.WEIR_LOG_0"},
		{"subject", "other", "other"},
		{"addr", "127.0.0.1:8092", "127.0.0.1:8092"},
		{"addr", netip.MustParseAddrPort("[::1]:8092"), "[::1]:8092"},
		{"at", "weir/a.(*B[...]).c:7 < d/e-1.F.func2:31", "weir/a.(*B[...]).c:7 < d/e-1.F.func2:31"},
		{"policy_version", strings.Repeat("0a", 32), strings.Repeat("0a", 32)},
		{"durability", schemas.DurabilityDisk, "disk"},
		{"count", 10, 10.0},
		{"err_kind", "timeout", "timeout"},
		{"err_kind", "UPSTREAM_DNS", "UPSTREAM_DNS"},
		{"err_kind", schemas.Poison, "POISON"},
		{"err_kind", fmt.Errorf("%s: %w", canary, fault.ErrFenced), "fenced"},
		{"err_kind", errors.New(canary), "other"},
	}
	covered := map[string]bool{}
	for _, tt := range tests {
		covered[tt.key] = true
		t.Run(fmt.Sprintf("%s %v", tt.key, tt.want), func(t *testing.T) {
			t.Parallel()
			log, buf, counts := capture(t)
			log.Info("event", tt.key, tt.in)
			require.Equal(t, map[string]any{"msg": "event", tt.key: tt.want}, line(t, buf))
			dropped, _ := counts()
			require.Equal(t, "0", dropped)
		})
	}
	for _, key := range logKeys() {
		require.True(t, covered[key], "%s has no example", key)
	}
}

type stringer struct{}

func (stringer) String() string { return canary }

type valuer struct{ v slog.Value }

func (v valuer) LogValue() slog.Value { return v.v }

type panicking struct{}

func (panicking) LogValue() slog.Value { panic(canary) }

type namedString string

// hostile are values that no key may print.
func hostile() []any {
	text := canary + " with space"
	return []any{
		text, "", "a\nb", "a\x00b", "\xff\xfe", strings.Repeat("a", 4096), "ü", "{\"a\":1}", "http://h/" + canary, `"`,
		errors.New(text), &url.Error{Op: "Get", URL: "http://h/?q=" + text, Err: errors.New(text)},
		stringer{},
		&text,
		[]string{text},
		[]byte(text),
		map[string]any{text: text},
		struct{ A string }{text},
		namedString(text), json.RawMessage(`"` + canary + `"`), slog.GroupValue(slog.String(text, text)),
		valuer{slog.StringValue(text)},
		valuer{slog.AnyValue(errors.New(text))},
		panicking{},
		-1, int64(math.MinInt64), math.NaN(), math.Inf(1), -0.5, -time.Second, true, time.Unix(0, 0), nil, func() string { return text },
		complex(1, 2), make(chan string), schemas.Code(text), schemas.Kind(text), schemas.Outcome(text),
		netip.AddrPort{},
	}
}

// forbidden are values of a key that are of the right type and still not what the key is for.
func forbidden(key string) []any {
	return map[string][]any{
		"action_id":   {1, strings.Repeat("a", 129), "a/b"},
		"kind":        {"HTTP", "chat message", 1},
		"entry":       {"host:", "https://h/p", "host:h?q=" + canary, "host:a b", "host:u@h"},
		"code":        {"DENY_EVERYTHING", "deny_host", canary},
		"outcome":     {"won", canary},
		"status":      {99, 600, 1000, uint64(200), 200.5, "done", canary},
		"attempt":     {"1", 1.5, 1 * time.Second},
		"duration_ms": {"12ms", "1"},
		"stream":      {"weir_log_0", canary, strings.Repeat("A", 65)},
		"surface":     {"Executor", "a b", canary},
		"method":      {"get", "BREW", "GET /"},
		"route": {
			"/v1/actions/0190c3b2-7e2f-7c41-9a51-5b1d7f0b8a11", "/v1/actions/" + canary, "/v1/x?q=1", "v1", "BREW /v1", "",
			"/{}", "/:", "/" + strings.Repeat("a", 97), "http://h/", "/a b",
		},
		"component":      {"Broker", "a b", canary},
		"subject":        {"weir.log.0.event.t.http.id", canary, "a b.>", canary + ".>%"},
		"addr":           {"evil.example:80", "localhost:80", "127.0.0.1", "[fe80::1%" + canary + "]:80", "127.0.0.1:99999"},
		"at":             {"a.go:1 " + canary, canary + ":1 < " + canary, strings.Repeat("a", 1000) + ":1"},
		"policy_version": {canary, strings.Repeat("1", 63), strings.Repeat("1", 65)},
		"durability":     {"paper"},
		"err_kind":       {"dial tcp 10.0.0.1", "*net.OpError", canary, "h1"},
		"request_id":     {"John Smith", "a;b"},
	}[key]
}

func TestLoggerDropsWhatItsKeysForbid(t *testing.T) {
	t.Parallel()
	for _, key := range logKeys() {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			log, buf, counts := capture(t)
			lost := 0
			for i, v := range append(hostile(), forbidden(key)...) {
				buf.Reset()
				log.Info("event", key, v)
				got := line(t, buf)
				if key == "err_kind" && got[key] == "other" {
					continue // an error, by its kind
				}
				require.Equal(t, map[string]any{"msg": "event"}, got, "value %d: %T", i, v)
				lost++
			}
			dropped, _ := counts()
			require.Equal(t, strconv.Itoa(lost), dropped)
		})
	}
}

func TestErrKind(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New(canary), "other"},
		{fmt.Errorf("x: %w", fault.ErrFull), "full"},
		{&fault.Call{Code: schemas.UpstreamTLS, Cause: errors.New(canary)}, "UPSTREAM_TLS"},
		{fault.New(schemas.Conflict, canary), "CONFLICT"},
		{&fault.Terminal{Code: schemas.Poison, Reason: canary}, "POISON"},
		{&fault.Terminal{Code: canary, Cause: fault.ErrGone}, "gone"},
		{&fault.RetryAfter{Cause: fault.ErrUnavailable}, "unavailable"},
		{context.DeadlineExceeded, "deadline"},
		{context.Canceled, "canceled"},
		{&fs.PathError{Op: "open", Path: canary, Err: fs.ErrNotExist}, "not_exist"},
		{&url.Error{Op: "Get", URL: canary, Err: timeout{}}, "timeout"},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, telemetry.ErrKind(tt.err), "%T", tt.err)
	}
}

type timeout struct{}

func (timeout) Error() string   { return canary }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return false }
