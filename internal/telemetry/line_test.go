package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/telemetry"
	"weir/schemas"
)

// Whatever the logger writes passes, at the edges of what it writes too.
func TestCheckLinePassesWhatTheLoggerWrites(t *testing.T) {
	t.Parallel()
	log, buf, _ := capture(t)
	log.Debug("serving", "addr", "[::1]:8092", "durability", schemas.DurabilityDisk, "version", "(devel)")
	log.Info("request", "method", "GET", "status", 200, "duration_ms", 1500*time.Microsecond, "route", "/v1/actions/:id", "request_id", "a.b:c")
	log.Warn("work comes again", "seq", uint64(math.MaxUint64), "count", 0, "err_kind", errors.New(canary))
	log.Error("Not a constant", "status", "outcome_unknown", "entry", "host:.example.com", "code", schemas.Poison)
	log.Info("event", "duration_ms", 1e-9, "password", canary, "tenant", canary+" ")
	lines := strings.Split(strings.TrimSpace(buf.String()), "\n")
	require.Len(t, lines, 5)
	for _, l := range lines {
		require.NoError(t, telemetry.CheckLine([]byte(l)), l)
	}
}

func TestCheckLineRefuses(t *testing.T) {
	t.Parallel()
	const head = `{"time":"2026-01-02T03:04:05.6Z","level":"INFO","msg":"event"`
	require.NoError(t, telemetry.CheckLine([]byte(head+`}`)))
	for name, line := range map[string]string{
		"empty":                   ``,
		"text":                    `weir: warning: something`,
		"a list":                  `[]`,
		"cut":                     head,
		"two documents":           head + `}{}`,
		"a key outside the set":   head + `,"url":"http://a"}`,
		"a key in another case":   head + `,"Tenant":"t"}`,
		"a key twice":             head + `,"tenant":"a","tenant":"b"}`,
		"the message twice":       head + `,"msg":"event"}`,
		"a value outside the set": head + `,"kind":"` + canary + `"}`,
		"a blank in an id":        head + `,"request_id":"a b"}`,
		"a path for a route":      head + `,"route":"/v1/actions/01J9"}`,
		"a host name":             head + `,"addr":"example.com:80"}`,
		"a negative count":        head + `,"count":-1}`,
		"a part of a count":       head + `,"count":1.5}`,
		"a duration in words":     head + `,"duration_ms":"1s"}`,
		"an object":               head + `,"tenant":{"a":1}}`,
		"null":                    head + `,"tenant":null}`,
		"a boolean":               head + `,"tenant":true}`,
		"no message":              `{"time":"2026-01-02T03:04:05Z","level":"INFO"}`,
		"a built message":         strings.Replace(head, "event", "dial 10.0.0.1:80", 1) + `}`,
		"a time of another form":  strings.Replace(head, "2026-01-02T03:04:05.6Z", "yesterday", 1) + `}`,
		"another level":           strings.Replace(head, "INFO", canary, 1) + `}`,
	} {
		err := telemetry.CheckLine([]byte(line))
		var bad *telemetry.LineError
		require.ErrorAs(t, err, &bad, name)
		require.NotContains(t, err.Error(), canary, name)
	}
}

// Whatever is logged, and under whatever key, the line passes; and a line that
// passes has keys of the set alone.
func FuzzCheckLine(f *testing.F) {
	f.Add("event", "tenant", "t", []byte(`{"time":"2026-01-02T03:04:05Z","level":"INFO","msg":"a","count":1e400}`))
	f.Add("A", "duration_ms", "1", []byte(`{"time":"2026-01-02T03:04:05Z","level":"warn","msg":"a"}`))
	f.Add("", "addr", "1.2.3.4:5", []byte(`{"msg":"a","msg":"b"}`))
	m, keys := telemetry.NewMetrics(), append(logKeys(), "time", "level", "msg")
	f.Fuzz(func(t *testing.T, msg, key, value string, line []byte) {
		var buf bytes.Buffer
		log := m.NewLogger(&buf, "debug", telemetry.FormatJSON)
		//nolint:sloglint // the point
		log.LogAttrs(t.Context(), slog.LevelInfo, msg, slog.String(key, value), slog.Any(key, errors.New(value)), slog.Int("seq", len(value)))
		require.NoError(t, telemetry.CheckLine(bytes.TrimSpace(buf.Bytes())), buf.String())
		if telemetry.CheckLine(line) != nil {
			return
		}
		var got map[string]any
		require.NoError(t, json.Unmarshal(line, &got), "what passes can be read")
		for k := range got {
			require.Contains(t, keys, k)
		}
	})
}
