//go:build nightly

package disk_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/program"
)

// nobody is a user without rights.
const nobody = 65534

// TestADirectoryOfAnotherUser is refused at the start with a sentence that says what to do, on the
// standard error, with exit code 1, and nothing in it is changed. The other refusals are in
// internal/broker/embedded.
func TestADirectoryOfAnotherUser(t *testing.T) {
	t.Parallel()
	base, err := os.MkdirTemp("", "weir-refused-") //nolint:usetesting // its parent is closed to other users
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	require.NoError(t, os.Chmod(base, 0o755))
	w, data := newWorld(t), filepath.Join(base, "data")
	w.start(t, data).Kill()
	config, err := program.Config(base, w.URL, "")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(config, 0o644))
	runs, as := binary, (*syscall.SysProcAttr)(nil)
	if os.Geteuid() == 0 {
		runs, as = filepath.Join(base, program.Weir), &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		raw, err := os.ReadFile(binary)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(runs, raw, 0o755))
	} else { // this user gives up the right
		require.NoError(t, os.Chmod(filepath.Join(data, "weir.lock"), 0))
	}
	before := listing(t, data)
	_, err = program.Run(runs, program.How{As: as, Args: []string{"--data", data, "--config", config}})
	var ended *program.Ended
	require.ErrorAs(t, err, &ended)
	require.Equal(t, 1, ended.Code)
	for _, says := range []string{"data directory refused", "cannot be written: give it to the user that runs weir, or name another directory"} {
		require.Contains(t, ended.Said, says)
	}
	require.NotContains(t, ended.Said, "goroutine")
	require.Equal(t, before, listing(t, data))
}

// listing has the names in a directory, and the content of its marker.
func listing(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	marker, err := os.ReadFile(filepath.Join(dir, "weir.json"))
	require.NoError(t, err)
	return append(names, string(marker))
}
