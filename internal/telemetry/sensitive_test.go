package telemetry_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"weir/internal/telemetry"
)

const canary = "AGWCANARY-secret-0123456789abcdef"

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func TestSensitivePrintsNothing(t *testing.T) {
	t.Parallel()
	text := telemetry.Hide(canary)
	raw := telemetry.Hide([]byte(canary))
	type box struct {
		Open   telemetry.Sensitive[string] `json:"open" yaml:"open"`
		closed telemetry.Sensitive[string]
		nested struct{ deep *telemetry.Sensitive[[]byte] }
	}
	b := box{Open: text, closed: text}
	b.nested.deep = &raw
	values := map[string]any{
		"value": text, "pointer": &text, "bytes": raw, "struct": b, "struct pointer": &b,
		"slice": []any{text, b}, "map": map[string]any{"k": text},
	}
	for name, v := range values {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d", "%T", "%10.3v", "%p"} {
				require.NotContains(t, fmt.Sprintf(verb, v), canary, verb)
				require.NotContains(t, fmt.Sprintf(verb, v), fmt.Sprintf("%x", canary), verb)
				require.NotContains(t, fmt.Errorf("wrapped: "+verb, v).Error(), canary, verb)
			}
			out, err := json.Marshal(v)
			require.NoError(t, err)
			require.NotContains(t, string(out), canary)
			out, err = yaml.Marshal(v)
			require.NoError(t, err)
			require.NotContains(t, string(out), canary)
			for _, h := range []func(io.Writer) slog.Handler{
				func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) },
				func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) },
			} {
				var buf bytes.Buffer
				slog.New(h(&buf)).Info("m", "v", v)
				require.NotContains(t, buf.String(), canary)
				require.NotEmpty(t, buf.String())
			}
		})
	}
}

func TestSensitiveForms(t *testing.T) {
	t.Parallel()
	s := telemetry.Hide(canary)
	require.Equal(t, "[redacted]", s.String())
	require.Equal(t, "[redacted]", s.GoString())
	require.Equal(t, "[redacted] [redacted] [redacted]", fmt.Sprintf("%v %#v %x", s, s, s))
	out, err := json.Marshal(map[string]any{"k": s})
	require.NoError(t, err)
	require.JSONEq(t, `{"k":"[redacted]"}`, string(out))
	var buf bytes.Buffer
	require.NoError(t, gob.NewEncoder(&buf).Encode(s))
	require.NotContains(t, buf.String(), canary)
	out, err = xml.Marshal(s)
	require.NoError(t, err)
	require.NotContains(t, string(out), canary)
	require.Equal(t, slog.StringValue("[redacted]"), s.LogValue())
}

func TestSensitiveReveal(t *testing.T) {
	t.Parallel()
	require.Equal(t, canary, telemetry.Hide(canary).Reveal())
	var zero telemetry.Sensitive[int]
	require.Zero(t, zero.Reveal())
	require.Equal(t, "[redacted]", zero.String())
}
