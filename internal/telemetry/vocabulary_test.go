package telemetry_test

import (
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
	"weir/schemas"
)

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
		{"subject", "weir.log.*.*.*.*.*.settled", "weir.log.*.*.*.*.*.settled"},
		{"subject", "$JS.API.STREAM.CREATE.WEIR_LOG_0", "$JS.API.STREAM.CREATE.WEIR_LOG_0"},
		{"subject", "other", "other"},
		{"addr", "127.0.0.1:8092", "127.0.0.1:8092"},
		{"addr", netip.MustParseAddrPort("[::1]:8092"), "[::1]:8092"},
		{"version", "v0.1.0-rc.1+dirty", "v0.1.0-rc.1+dirty"},
		{"version", "(devel)", "(devel)"},
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

func TestLoggerDropsWhatItsKeysForbid(t *testing.T) {
	t.Parallel()
	for _, key := range logKeys() {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			log, buf, counts := capture(t)
			lost := 0
			for i, v := range hostile() {
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

// Values that are of the right type and still not what the key is for.
func TestLoggerChecksValuesByKey(t *testing.T) {
	t.Parallel()
	for key, values := range map[string][]any{
		"action_id":   {1, strings.Repeat("a", 129), "a/b"},
		"kind":        {"HTTP", "chat message", 1},
		"entry":       {"host:", "https://h/p", "host:h?q=" + canary, "host:a b", "host:u@h"},
		"code":        {"DENY_EVERYTHING", "deny_host", canary},
		"outcome":     {"won", canary},
		"status":      {99, 600, 1000, uint64(200), 200.5, "done", canary},
		"attempt":     {"1", 1.5, 1 * time.Second},
		"duration_ms": {"12ms", "1"},
		"stream":      {"weir_log_0", canary, strings.Repeat("A", 65)},
		"surface":     {"Executor", "patients"},
		"method":      {"get", "BREW", "GET /"},
		"route": {
			"/v1/actions/0190c3b2-7e2f-7c41-9a51-5b1d7f0b8a11", "/v1/actions/" + canary, "/v1/x?q=1", "v1", "BREW /v1", "",
			"/{}", "/:", "/" + strings.Repeat("a", 97), "http://h/", "/a b",
		},
		"component":  {"Broker", "a b", canary},
		"subject":    {"weir.log.0.0.t.http.id.settled", canary, "a b.>", canary + ".>%"},
		"addr":       {"evil.example:80", "localhost:80", "127.0.0.1", "[fe80::1%" + canary + "]:80", "127.0.0.1:99999"},
		"version":    {"v1 " + canary, "v1/" + canary, strings.Repeat("1", 81)},
		"durability": {"paper"},
		"err_kind":   {"dial tcp 10.0.0.1", "*net.OpError", canary, "h1"},
		"request_id": {"John Smith", "a;b"},
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			log, buf, _ := capture(t)
			for _, v := range values {
				buf.Reset()
				log.Info("event", key, v)
				require.Equal(t, map[string]any{"msg": "event"}, line(t, buf), "%v", v)
			}
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
		{&fault.Parked{Code: schemas.Poison, Reason: canary}, "POISON"},
		{&fault.Parked{Code: canary, Cause: fault.ErrGone}, "gone"},
		{&fault.Later{Cause: fault.ErrUnavailable}, "unavailable"},
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
