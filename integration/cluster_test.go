//go:build e2e

package integration_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// newCluster runs NATS servers with a replicated log, in a process of their own,
// and returns their addresses as nats.url takes them.
func newCluster(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "cluster")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "weir/internal/broker/embedded/testdata/cluster")
	build.Stderr = os.Stderr
	require.NoError(t, build.Run())
	cmd := exec.Command(program, filepath.Join(dir, "store"))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close() // it ends with its input
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line)
}

// onCluster writes a configuration of a node on an external log; rest is added.
func onCluster(t *testing.T, urls, rest string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weir.yaml")
	text := fmt.Sprintf("nats: {url: %q}\nlog: {partitions: 2}\ntelemetry: {log_level: warn}\n%s", urls, rest)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
