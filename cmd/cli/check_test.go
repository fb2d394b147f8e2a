package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/cli/check"
	"weir/internal/weirtest/agent"
)

func TestCheckOfAgents(t *testing.T) {
	t.Parallel()
	good := agent.New(t, agent.Config{TaskTypes: []string{"A"}})
	bad := agent.New(t, agent.Config{TaskTypes: []string{"B"}, Fault: agent.EndNoOutputs})

	code, out, errs := command(t, "check", good.URL()+"=A,"+bad.URL()+"=B", "--inputs", `{"a":"<b>"}`)
	assert.Equal(t, ExitFailed, code)
	assert.True(t, strings.HasPrefix(out, good.URL()+" A: passed\n  health    5 passed\n"), out)
	assert.Contains(t, out, "\n\n"+bad.URL()+" B: failed\n")
	assert.True(t, strings.HasSuffix(out, "\n\n1 of 2 targets passed\n"), out)
	assert.Empty(t, errs)
	assert.JSONEq(t, `{"a":"<b>"}`, string(good.Ledger()[0].Run.Inputs))

	code, out, _ = command(t, "check", bad.URL()+"=B", good.URL()+"=A", "--json")
	assert.Equal(t, ExitFailed, code)
	var reports []check.Report
	for line := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
		var r check.Report
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		reports = append(reports, r)
	}
	require.Len(t, reports, 2)
	assert.False(t, reports[0].Passed)
	assert.True(t, reports[1].Passed)
	assert.Equal(t, "A", reports[1].TaskType)
	assert.Len(t, reports[1].Rules, len(check.Rules()))

	code, out, _ = command(t, "check", good.URL()+"=A")
	assert.Equal(t, ExitOK, code)
	assert.NotContains(t, out, "targets")
}

// TestCheckTokens: the environment's token goes to the Weir that it is for, and
// a file's to every target.
func TestCheckTokens(t *testing.T) {
	t.Parallel()
	a := agent.New(t, agent.Config{Token: "secret"})
	target := a.URL() + "=" + agent.TaskType
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("secret\n"), 0o600))
	for name, tt := range map[string]struct {
		environ, args []string
		want          int
	}{
		"none":                   {nil, nil, ExitFailed},
		"of another":             {[]string{"WEIR_TOKEN=secret"}, nil, ExitFailed},
		"of the Weir that it is": {[]string{"WEIR_TOKEN=secret", "WEIR_URL=" + a.URL() + "/"}, nil, ExitOK},
		"of a file":              {nil, []string{"--token-file", file}, ExitOK},
	} {
		code, out, errs := weir(t, "", tt.environ, append([]string{"check", target}, tt.args...)...)
		assert.Equal(t, tt.want, code, name)
		assert.NotContains(t, out+errs, "secret", name)
	}
}
