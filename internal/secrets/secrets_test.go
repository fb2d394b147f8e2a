package secrets_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/secrets"
)

const canary = "s3cr3t-canary-7f"

func env(m map[string]string) func(string) (string, bool) {
	return func(k string) (string, bool) { v, ok := m[k]; return v, ok }
}

func reveal(values []secrets.Value) []string {
	var out []string
	for _, v := range values {
		out = append(out, v.ExposeSecret())
	}
	return out
}

func TestResolve(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"FILE": "from file\n", "BOTH": "file", "CRLF": "windows\r\n", "LINES": "a\n\n", "BARE": "bare", "EMPTY": "\n",
		"BIG": strings.Repeat("x", 64<<10+1), "EDGE": strings.Repeat("x", 64<<10),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "FOLDER"), 0o700))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "PIPE"), 0o600))
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, []byte(canary), 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "ESCAPE")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "..data"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "..data", "MOUNTED"), []byte("mounted"), 0o600))
	require.NoError(t, os.Symlink(filepath.Join("..data", "MOUNTED"), filepath.Join(dir, "MOUNTED")))

	store := secrets.New(secrets.Config{Dir: dir, LookupEnv: env(map[string]string{
		"WEIR_SECRET_TOKEN": canary, "WEIR_SECRET_BOTH": "env", "WEIR_SECRET_VOID": "", "WEIR_SECRET_NEST": "${secret:TOKEN}", "TOKEN2": canary,
	})})
	for _, c := range []struct {
		template, want string
		used           []string
		err            string
	}{
		{template: "", want: ""},
		{template: "plain $ { } ${HOME} $secret", want: "plain $ { } ${HOME} $secret"},
		{template: "Bearer ${secret:TOKEN}", want: "Bearer " + canary, used: []string{canary}},
		{template: "${secret:TOKEN}:${secret:FILE}:${secret:TOKEN}", want: canary + ":from file:" + canary, used: []string{canary, "from file"}},
		{template: "${secret:BOTH}", want: "env", used: []string{"env"}},
		{template: "${secret:CRLF}", want: "windows", used: []string{"windows"}},
		{template: "${secret:LINES}", want: "a\n", used: []string{"a\n"}},
		{template: "${secret:BARE}", want: "bare", used: []string{"bare"}},
		{template: "${secret:MOUNTED}", want: "mounted", used: []string{"mounted"}},
		{template: "${secret:NEST}", want: "${secret:TOKEN}", used: []string{"${secret:TOKEN}"}},
		{template: "${secret:EDGE}", want: strings.Repeat("x", 64<<10), used: []string{strings.Repeat("x", 64<<10)}},
		{template: "${secret:NONE}", err: "secret NONE: no source has it"},
		{template: "${secret:TOKEN2}", err: "secret TOKEN2: no source has it"},
		{template: "${secret:TOKEN}${secret:NONE}", err: "secret NONE: no source has it"},
		{template: "${secret:VOID}", err: "secret VOID: it is empty"},
		{template: "${secret:EMPTY}", err: "secret EMPTY: it is empty"},
		{template: "${secret:BIG}", err: "secret BIG: its file is too large"},
		{template: "${secret:FOLDER}", err: "secret FOLDER: its file is not a regular one"},
		{template: "${secret:PIPE}", err: "secret PIPE: its file is not a regular one"},
		{template: "${secret:ESCAPE}", err: "secret ESCAPE: its file cannot be opened"},
		{template: "${secret:}", err: "a placeholder's name must match [A-Z0-9_]{1,128}"},
		{template: "${secret:lower}", err: "a placeholder's name must match [A-Z0-9_]{1,128}"},
		{template: "${secret:../X}", err: "a placeholder's name must match [A-Z0-9_]{1,128}"},
		{template: "${secret: TOKEN}", err: "a placeholder's name must match [A-Z0-9_]{1,128}"},
		{template: "${secret:" + strings.Repeat("A", 129) + "}", err: "a placeholder's name must match [A-Z0-9_]{1,128}"},
		{template: "${secret:TOKEN", err: "a placeholder is not closed: ${secret:…"},
	} {
		value, used, err := store.Resolve(c.template)
		if c.err != "" {
			require.EqualError(t, err, c.err)
			assert.Empty(t, value.ExposeSecret())
			assert.Empty(t, used)
			assert.NotContains(t, err.Error(), canary)
			continue
		}
		require.NoError(t, err, c.template)
		assert.Equal(t, c.want, value.ExposeSecret())
		assert.Equal(t, c.used, reveal(used))
	}
	_, _, err := store.Resolve("${secret:NONE}")
	assert.ErrorIs(t, err, secrets.ErrMissing)
}

func TestRotatedFileIsReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := secrets.New(secrets.Config{Dir: dir, LookupEnv: env(nil)})
	for _, want := range []string{"old", "new"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "KEY"), []byte(want), 0o600))
		value, _, err := store.Resolve("${secret:KEY}")
		require.NoError(t, err)
		assert.Equal(t, want, value.ExposeSecret())
	}
}

func TestValueNeverShows(t *testing.T) {
	t.Parallel()
	value, used, err := secrets.New(secrets.Config{LookupEnv: env(map[string]string{"WEIR_SECRET_T": canary})}).Resolve("${secret:T}")
	require.NoError(t, err)
	type holder struct {
		V  secrets.Value            `json:"v"`
		P  *secrets.Value           `json:"p"`
		S  []secrets.Value          `json:"s"`
		M  map[string]secrets.Value `json:"m"`
		In any                      `json:"in"`
		v  secrets.Value
		s  []secrets.Value
	}
	h := holder{V: value, P: &value, S: used, M: map[string]secrets.Value{"k": value}, In: value, v: value, s: used}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%20s", "%-5.2v", "%t", "%p", "%w"} {
		fmt.Fprintf(&out, verb+"\n", value)
		fmt.Fprintf(&out, verb+"\n", &value)
		fmt.Fprintf(&out, verb+"\n", h)
		fmt.Fprintf(&out, verb+"\n", used)
	}
	doc, err := json.Marshal(h)
	require.NoError(t, err)
	out.Write(doc)
	text, err := value.MarshalText()
	require.NoError(t, err)
	out.Write(text)
	for _, handler := range []slog.Handler{slog.NewJSONHandler(&out, nil), slog.NewTextHandler(&out, nil)} {
		slog.New(handler).Info("x", slog.Any("secret", value), slog.Any("all", h), slog.Any("p", &value), slog.Group("g", "v", value))
	}
	fmt.Fprint(&out, errors.Join(fmt.Errorf("with %v", value)), value)

	for _, form := range []string{canary, "canary", fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary)} {
		assert.NotContains(t, out.String(), form)
	}
	assert.GreaterOrEqual(t, strings.Count(out.String(), "[redacted]"), 30)
}
