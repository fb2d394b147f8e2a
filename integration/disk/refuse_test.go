//go:build nightly

package disk_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/program"
)

// nobody is a user without rights.
const nobody = 65534

// TestRefusedDirectories: a data directory that this program cannot use is refused at the
// start with a sentence that says what to do, on the standard error, with exit code 1, and
// nothing in it is changed. The other refusals are in internal/broker/embedded.
func TestRefusedDirectories(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, w *world, data string)
		more    string
		as      *syscall.SysProcAttr
		says    []string
	}{
		"another partition count": {
			prepare: func(t *testing.T, w *world, data string) {
				t.Helper()
				w.start(t, data).Kill()
			}, more: "log: {partitions: 4}\n", says: []string{"has 1 partitions and 4 are configured", "configure 1, or name another directory"},
		},
		"in use": {
			prepare: func(t *testing.T, w *world, data string) { t.Helper(); w.start(t, data) },
			says:    []string{"is in use by another weir: stop that one, or name another directory"},
		},
		"not its own": {
			prepare: func(t *testing.T, w *world, data string) {
				t.Helper()
				w.start(t, data).Kill()
				if os.Geteuid() != 0 { // it is this user's, who gives up the right
					require.NoError(t, os.Chmod(filepath.Join(data, "weir.lock"), 0))
				}
			}, as: dropped(), says: []string{"cannot be written: give it to the user that runs weir, or name another directory"},
		},
		"below what is not its own": {
			prepare: func(t *testing.T, _ *world, data string) {
				t.Helper()
				require.NoError(t, os.Remove(data))
				require.NoError(t, os.Chmod(filepath.Dir(data), 0o555))
			}, as: dropped(), says: []string{"cannot be created: give this user the right to write there, or name another directory"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			open := openDir(t)
			data := filepath.Join(open, "data")
			require.NoError(t, os.Mkdir(data, 0o700))
			tc.prepare(t, w, data)
			config, err := program.Config(open, w.URL, tc.more)
			if err != nil { // the folder was closed
				config = w.config
			}
			lives := name == "in use" // by one that writes its marks
			before := listing(t, data, lives)
			runs := binary
			if tc.as != nil {
				runs = copied(t, open)
			}
			_, err = program.StartAs(runs, tc.as, data, "--config", readableBy(t, config))
			var ended *program.Ended
			require.ErrorAs(t, err, &ended)
			require.Equal(t, 1, ended.Code)
			for _, s := range append(tc.says, "data directory refused") {
				require.Contains(t, ended.Said, s)
			}
			require.NotContains(t, ended.Said, "goroutine")
			require.Equal(t, before, listing(t, data, lives))
		})
	}
}

// copied is the program in a folder that another user reaches.
func copied(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(binary)
	require.NoError(t, err)
	path := filepath.Join(dir, program.Weir)
	require.NoError(t, os.WriteFile(path, data, 0o755))
	return path
}

// dropped is a process of a user without rights, where this user may make one.
func dropped() *syscall.SysProcAttr {
	if os.Geteuid() != 0 {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}

// openDir is a folder that every user reaches.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir-refused-") //nolint:usetesting // its parent is closed to other users
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() {
		_ = os.Chmod(dir, 0o755)
		_ = os.RemoveAll(dir)
	})
	return dir
}

// readableBy copies a configuration to where every user reads it.
func readableBy(t *testing.T, config string) string {
	t.Helper()
	text, err := os.ReadFile(config)
	require.NoError(t, err)
	path := filepath.Join(openDir(t), "weir.yaml")
	require.NoError(t, os.WriteFile(path, text, 0o644))
	return path
}

// listing is what lies in a directory, the lock aside, with the marker's content. The
// marks, and what becomes them, come and go while a program lives there.
func listing(t *testing.T, dir string, lives bool) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		name := e.Name()
		if name == "weir.lock" || lives && (name == "weir.marks" || name == "index" || strings.HasPrefix(name, ".weir-")) {
			continue
		}
		names = append(names, name)
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "weir.json")); err == nil {
		names = append(names, string(raw))
	}
	return names
}
