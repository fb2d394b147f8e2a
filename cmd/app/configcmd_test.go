package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/cli"
	"weir/internal/config"
)

func TestInit(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	code, out, errs := command(t, "init", file)
	require.Equal(t, cli.ExitOK, code, errs)
	require.Contains(t, out, "wrote "+file)
	code, out, errs = command(t, "config", "check", file)
	require.Equal(t, cli.ExitOK, code, out)
	require.Equal(t, "warning: "+file+": model openai/*: header Authorization: secret OPENAI_API_KEY: no source has it; its calls will fail until it is there\n", out)
	require.Contains(t, errs, "has no mistake; entries: 1, models: 1, agents: 0, warnings: 1")

	require.NoError(t, os.WriteFile(file, []byte("listen: 127.0.0.1:1\n"), 0o600))
	code, _, errs = command(t, "init", file)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errs, "exists and was not changed")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "listen: 127.0.0.1:1\n", string(text))
	code, _, errs = command(t, "init", file, "--force")
	require.Equal(t, cli.ExitOK, code, errs)

	text, err = os.ReadFile(file)
	require.NoError(t, err)
	c, err := config.Parse(file, text, nil, map[string]string{"listen": "127.0.0.1:0", "data": t.TempDir(), "log.durability": "process"})
	require.NoError(t, err)
	require.False(t, c.Open())
	for line := range strings.Lines(string(text)) {
		require.LessOrEqual(t, len(line), 101)
	}
	// Each commented part is a configuration, too.
	uncommented := strings.NewReplacer("# headers:", "headers:", "    # - name", "    - name", "    #   ", "      ", "  # local", "  local", "  #   ", "    ", "# budgets", "budgets", "#   daily", "  daily")
	_, err = config.Parse(file, []byte(uncommented.Replace(string(text))), nil, nil)
	require.NoError(t, err)
}

// TestConfigCheck lists all mistakes at once, with their lines, or all warnings.
func TestConfigCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(text string) string {
		file := filepath.Join(dir, "weir.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	file := write("listne: x\ndata: []\n")
	code, out, errs := command(t, "config", "check", file)
	require.Equal(t, cli.ExitFailed, code)
	require.Equal(t, "error: "+file+":1: listne: unknown key; did you mean listen?\n"+
		"error: "+file+":2: data: is a YAML sequence; write text, in quotes where it looks like something else\n", out)
	require.Equal(t, "mistakes: 2\n", errs)

	write(`policy:
  allowed_hosts: ["*.example.com"]
  allowlist:
  - name: a
    url_prefix: https://*.example.com/
`)
	code, out, _ = command(t, "config", "check", file, "--json")
	require.Equal(t, cli.ExitFailed, code)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 2)
	for i, line := range lines {
		var p configProblem
		require.NoError(t, json.Unmarshal([]byte(line), &p))
		assert.Equal(t, "error", p.Severity)
		assert.Equal(t, file+":"+[]string{"5", "2"}[i], p.Where)
		assert.Contains(t, p.Problem, "wildcards in a host are not supported; name each host")
	}

	write("policy:\n  allowlist:\n  - name: a\n    url_prefix: https://a.example/\n    headers: {X-Key: $KEY}\n")
	code, out, errs = command(t, "config", "check", file)
	require.Equal(t, cli.ExitOK, code)
	require.Regexp(t, `^warning: .*weir\.yaml:5: policy\.allowlist\[0\]\.headers\.X-Key: contains a \$ before a name`, out)
	require.NotContains(t, out, "KEY:")
	require.Contains(t, errs, "warnings: 1")

	write("policy:\n  allowlist:\n  - name: a\n    url_prefix: http://127.0.0.1:8000/\n")
	code, out, _ = command(t, "config", "check", file)
	require.Equal(t, cli.ExitOK, code)
	require.Regexp(t, `^warning: .*weir\.yaml:4: policy\.allowlist\[0\]\.url_prefix: names an address that network: public does not reach: .*set network of entry a to loopback`, out)

	for _, args := range [][]string{{filepath.Join(dir, "nowhere.yaml")}, {"a", "b"}, {"--strict"}} {
		code, out, errs := command(t, append([]string{"config", "check"}, args...)...)
		require.Equal(t, cli.ExitUsage, code, args)
		require.Empty(t, out)
		require.NotEmpty(t, errs)
	}
}
