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

// TestRefusedDirectories: a data directory that is another user's is refused at the
// start with a sentence that says what to do, on the standard error, with exit code 1, and
// nothing in it is changed. The other refusals are in internal/broker/embedded.
func TestRefusedDirectories(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		prepare func(data string) error
		says    string
	}{
		"not its own": {func(data string) error {
			if os.Geteuid() == 0 {
				return nil
			}
			return os.Chmod(filepath.Join(data, "weir.lock"), 0) // this user gives up the right
		}, "cannot be written: give it to the user that runs weir, or name another directory"},
		"below what is not its own": {func(data string) error {
			if err := os.RemoveAll(data); err != nil {
				return err
			}
			return os.Chmod(filepath.Dir(data), 0o555)
		}, "cannot be created: give this user the right to write there, or name another directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, base := newWorld(t), openDir(t)
			data := filepath.Join(base, "parent", "data")
			require.NoError(t, os.Mkdir(filepath.Dir(data), 0o755))
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
			}
			require.NoError(t, tc.prepare(data))
			before := listing(data)
			_, err = program.Run(runs, program.How{As: as, Args: []string{"--data", data, "--config", config}})
			var ended *program.Ended
			require.ErrorAs(t, err, &ended)
			require.Equal(t, 1, ended.Code)
			require.Contains(t, ended.Said, "data directory refused")
			require.Contains(t, ended.Said, tc.says)
			require.NotContains(t, ended.Said, "goroutine")
			require.Equal(t, before, listing(data))
		})
	}
}

// openDir is a folder that every user reaches.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir-refused-") //nolint:usetesting // its parent is closed to other users
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() {
		_ = os.Chmod(filepath.Join(dir, "parent"), 0o755)
		_ = os.RemoveAll(dir)
	})
	return dir
}

// listing is what lies in a directory, with the marker's content.
func listing(dir string) (names []string) {
	entries, _ := os.ReadDir(dir) // there may be none
	for _, e := range entries {
		names = append(names, e.Name())
	}
	marker, _ := os.ReadFile(filepath.Join(dir, "weir.json"))
	return append(names, string(marker))
}
