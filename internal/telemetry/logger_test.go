package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/telemetry"
)

// logKeys are all that a log line may have beside time, level and msg.
func logKeys() []string {
	return []string{
		"action_id", "addr", "attempt", "code", "component", "count", "duration_ms", "durability", "entry", "err_kind",
		"kind", "method", "outcome", "partition", "request_id", "route", "seq", "status", "step", "stream", "subject", "surface",
		"tenant", "version", "worker",
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
}

func TestLoggerLosesArgumentsWithoutAKey(t *testing.T) {
	t.Parallel()
	log, buf, _ := capture(t)
	args := []any{42, canary} // slog calls these !BADKEY
	log.Info("event", args...)
	require.Equal(t, map[string]any{"msg": "event"}, line(t, buf))
}

func TestLoggerGroupsAndWith(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		do      func(log *slog.Logger)
		want    map[string]any
		dropped string
	}{
		"with": {
			func(log *slog.Logger) {
				log.With("tenant", "t", "password", canary).With("worker", "w").Info("event", "kind", "http")
			},
			map[string]any{"tenant": "t", "worker": "w", "kind": "http"},
			"1",
		},
		"the last of a key counts": {
			func(log *slog.Logger) {
				log.With("tenant", "a").Info("event", "tenant", "b", "tenant", "c")
			},
			map[string]any{"tenant": "c"},
			"0",
		},
		"a bad repeat leaves the good one": {
			func(log *slog.Logger) { log.With("tenant", "a").Info("event", "tenant", "b b") },
			map[string]any{"tenant": "a"},
			"1",
		},
		"a group": {
			func(log *slog.Logger) { log.Info("event", slog.Group("g", "tenant", "t")) },
			map[string]any{},
			"1",
		},
		"a group under an allowed key": {
			func(log *slog.Logger) { log.Info("event", slog.Group("tenant", canary, canary)) },
			map[string]any{},
			"1",
		},
		"an inlined group": {
			func(log *slog.Logger) {
				log.Info("event", slog.Group("", "tenant", "t", "secret", canary, slog.Group("", "worker", "w")))
			},
			map[string]any{"tenant": "t", "worker": "w"},
			"1",
		},
		"a group behind a valuer": {
			func(log *slog.Logger) {
				log.Info("event", "", valuer{slog.GroupValue(slog.String("tenant", "t"), slog.String("x", canary))})
			},
			map[string]any{"tenant": "t"},
			"1",
		},
		"after with group": {
			func(log *slog.Logger) {
				log.With("tenant", "t").WithGroup(canary).With("worker", "w").Info("event", "kind", "http", "seq", 1)
			},
			map[string]any{"tenant": "t"},
			"3",
		},
		"with group without a name": {
			func(log *slog.Logger) { log.WithGroup("").Info("event", "kind", "http") },
			map[string]any{"kind": "http"},
			"0",
		},
		"the empty attribute": {
			func(log *slog.Logger) { log.LogAttrs(context.Background(), slog.LevelInfo, "event", slog.Attr{}) },
			map[string]any{},
			"0",
		},
		"siblings do not share": {
			func(log *slog.Logger) {
				base := log.With("tenant", "t", "worker", "w", "kind", "http")
				_ = base.With("seq", 1)
				base.With("count", 2).Info("event")
			},
			map[string]any{"tenant": "t", "worker": "w", "kind": "http", "count": 2.0},
			"0",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, buf, counts := capture(t)
			tt.do(log)
			require.NotContains(t, buf.String(), canary)
			tt.want["msg"] = "event"
			require.Equal(t, tt.want, line(t, buf))
			dropped, _ := counts()
			require.Equal(t, tt.dropped, dropped)
		})
	}
}

func TestLoggerMessages(t *testing.T) {
	t.Parallel()
	for _, ok := range []string{"action settled", "broker.ready", "a", "retry-later 2 of 3", "sync_failed", strings.Repeat("a", 80)} {
		log, buf, counts := capture(t)
		log.Warn(ok) //nolint:sloglint // the point
		require.Equal(t, map[string]any{"msg": ok}, line(t, buf))
		_, redacted := counts()
		require.Equal(t, "0", redacted)
	}
	for _, bad := range []string{"", "Action settled", canary, "dial tcp 127.0.0.1:80", `get "x"`, "a\nb", "é", "a/b", strings.Repeat("a", 81)} {
		log, buf, counts := capture(t)
		log.Warn(bad) //nolint:sloglint // the point
		require.Equal(t, map[string]any{"msg": "redacted message"}, line(t, buf))
		_, redacted := counts()
		require.Equal(t, "1", redacted)
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

// The handler keeps slog's own contract for a record without a time.
func TestLoggerLeavesOutAZeroTimeAndTheSource(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	h := telemetry.NewMetrics().NewLogger(&buf, "info", telemetry.FormatJSON).Handler()
	require.NoError(t, h.Handle(context.Background(), slog.NewRecord(time.Time{}, slog.LevelInfo, "event", 1)))
	require.JSONEq(t, `{"level":"INFO","msg":"event"}`, buf.String())
}

// Whatever is logged, a line is one JSON object with keys of the closed set.
func FuzzLogger(f *testing.F) {
	f.Add("event", "tenant", "t", "password", canary)
	f.Add("A\n", "route", "/v1/x", "entry", "host:a")
	f.Add("", "", "", "addr", "1.2.3.4:5")
	m := telemetry.NewMetrics()
	keys := append(logKeys(), "time", "level", "msg")
	f.Fuzz(func(t *testing.T, msg, key1, value1, key2, value2 string) {
		var buf bytes.Buffer
		log := m.NewLogger(&buf, "debug", telemetry.FormatJSON)
		//nolint:sloglint // the point
		log.With(key1, value1).Info(msg, key2, value2, slog.Group(key1, key2, value1))
		var got map[string]any
		require.NoError(t, json.Unmarshal(buf.Bytes(), &got))
		require.Equal(t, 1, strings.Count(buf.String(), "\n"))
		for k, v := range got {
			require.True(t, slices.Contains(keys, k), k)
			require.NotContains(t, fmt.Sprint(v), "\n")
		}
	})
}
