//go:build e2e

package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// policyFile writes a configuration whose entry "up" lets everything through to
// one upstream on this machine.
func policyFile(tb testing.TB, upstream string, more ...string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "weir.yaml")
	text := fmt.Sprintf(`policy:
  timeout: 60s
  allowlist:
    - name: up
      url_prefix: %s/
      methods: [GET, HEAD, POST, PUT, PATCH, DELETE]
      network: loopback
`, upstream) + strings.Join(more, "")
	require.NoError(tb, os.WriteFile(path, []byte(text), 0o600))
	return path
}
