package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"weir/internal/config"
)

const secret = `
nats: {url: "nats://n", creds: /canary.creds}
policy:
  allowlist:
    - name: a
      url_prefix: http://h/
      headers: {Authorization: "Bearer canary", X-Empty: ""}
`

func TestNothingPrintsASecret(t *testing.T) {
	t.Parallel()
	c := parse(t, secret)
	shown := map[string]any{"config": c, "pointer": &c, "policy": c.Policy, "redacted": c.Redacted(), "boxed": struct{ C any }{c}}
	for name, v := range shown {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
				require.NotContains(t, fmt.Sprintf(verb, v), "canary", verb)
				require.NotContains(t, fmt.Sprintf(verb, v), fmt.Sprintf("%x", "canary"), verb)
			}
			data, err := json.Marshal(v)
			require.NoError(t, err)
			require.NotContains(t, string(data), "canary")
			var buf bytes.Buffer
			slog.New(slog.NewJSONHandler(&buf, nil)).Info("m", "v", v)
			slog.New(slog.NewTextHandler(&buf, nil)).Info("m", "v", v)
			require.NotContains(t, buf.String(), "canary")
			require.NotEmpty(t, buf.String())
		})
	}
	require.Equal(t, "Bearer canary", c.Policy.Allowlist[0].Headers["Authorization"], "redacting is done on a copy")
	require.Equal(t, map[string]string{"Authorization": "set", "X-Empty": "unset"}, c.Redacted().Policy.Allowlist[0].Headers)
	require.Equal(t, "set", c.Redacted().NATS.Creds)
	require.Equal(t, "unset", config.Defaults().Redacted().NATS.Creds)
}

// What is printed is a configuration again, apart from what it hides.
func TestStringReadsBack(t *testing.T) {
	t.Parallel()
	for _, c := range []config.Config{config.Defaults(), parse(t, full)} {
		again, err := config.Parse("printed", []byte(c.String()), nil, nil)
		if c.NATS.Creds == "" {
			// An embedded server's creds read "unset", which is not a file.
			text := bytes.ReplaceAll([]byte(c.String()), []byte("creds: unset"), []byte(`creds: ""`))
			again, err = config.Parse("printed", text, nil, nil)
		}
		require.NoError(t, err)
		same(t, c.Redacted(), again.Redacted())
	}
}

func TestJSONHasTheKeysOfTheFile(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(parse(t, full))
	require.NoError(t, err)
	var got, printed map[string]any
	require.NoError(t, json.Unmarshal(data, &got))
	require.NoError(t, yaml.Unmarshal([]byte(parse(t, full).String()), &printed))
	again, err := json.Marshal(printed)
	require.NoError(t, err)
	require.JSONEq(t, string(again), string(data))
	require.Subset(t, got["log"], map[string]any{"history": "24h", "max_bytes": "64MiB"})
}

func TestSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]config.Size{
		"0": 0, "1": 1, "17B": 17, "1KiB": 1024, "256KiB": 256 << 10, "3MiB": 3 << 20, "10GiB": 10 << 30, "8TiB": 8 << 40, "4 KiB": 4096,
	} {
		var s config.Size
		require.NoError(t, s.UnmarshalText([]byte(text)), text)
		require.Equal(t, want, s)
		var back config.Size
		require.NoError(t, back.UnmarshalText([]byte(s.String())))
		require.Equal(t, s, back)
	}
	for _, text := range []string{"", "KiB", "1kb", "1KB", "1.5MiB", "-1", "1MiBi", "1iB", "0x10", "9223372036854775808", "8388608TiB", "1 M", "١"} {
		var s config.Size
		require.Error(t, s.UnmarshalText([]byte(text)), text)
	}
}
