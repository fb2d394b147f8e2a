package embedded

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

func TestDataDirIsMarkedAndReopened(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "for", "us")
	d, err := openDataDir(dir, layout)
	require.NoError(t, err)
	raw, err := os.ReadFile(filepath.Join(dir, markerName))
	require.NoError(t, err)
	require.JSONEq(t, `{"format":1,"partitions":1,"lanes":8}`, string(raw))
	st, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), st.Mode().Perm())
	require.NoError(t, d.close())

	d, err = openDataDir(dir, layout)
	require.NoError(t, err)
	require.NoError(t, d.close())
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 2, "nothing temporary is left")
}

func TestDataDirRefusals(t *testing.T) {
	t.Parallel()
	put := func(t *testing.T, dir, name, content string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, dir string) string
		says    []string
	}{
		"newer format": {
			func(t *testing.T, dir string) string {
				t.Helper()
				put(t, dir, markerName, `{"format":2,"partitions":1,"lanes":8}`)
				return dir
			}, []string{"has format 2", "reads format 1", "run the weir that wrote it"},
		},
		"other partitions": {
			func(t *testing.T, dir string) string {
				t.Helper()
				put(t, dir, markerName, `{"format":1,"partitions":4,"lanes":8}`)
				return dir
			}, []string{"has 4 partitions and 1 are configured", "configure 4"},
		},
		"other lanes": {
			func(t *testing.T, dir string) string {
				t.Helper()
				put(t, dir, markerName, `{"format":1,"partitions":1,"lanes":16}`)
				return dir
			}, []string{"has 16 lanes and 8 are configured", "configure 16"},
		},
		"damaged marker": {
			func(t *testing.T, dir string) string { t.Helper(); put(t, dir, markerName, `{"for`); return dir },
			[]string{"is damaged", "restore it"},
		},
		"empty marker": {
			func(t *testing.T, dir string) string { t.Helper(); put(t, dir, markerName, ``); return dir },
			[]string{"is damaged", "restore it"},
		},
		"somebody else's store": {
			func(t *testing.T, dir string) string {
				t.Helper()
				require.NoError(t, os.Mkdir(filepath.Join(dir, storeName), 0o700))
				return dir
			}, []string{"holds a message store and no weir.json", "name another directory"},
		},
		"a file": {
			func(t *testing.T, dir string) string {
				t.Helper()
				put(t, dir, "f", "")
				return filepath.Join(dir, "f")
			}, []string{"is a file", "name a directory"},
		},
		"below a file": {
			func(t *testing.T, dir string) string {
				t.Helper()
				put(t, dir, "f", "")
				return filepath.Join(dir, "f", "x")
			}, []string{"cannot be created", "name another directory"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := openDataDir(tc.prepare(t, t.TempDir()), layout)
			require.ErrorIs(t, err, ErrDataDir)
			for _, s := range tc.says {
				require.ErrorContains(t, err, s)
			}
		})
	}
}

func TestDataDirInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := openDataDir(dir, layout)
	require.NoError(t, err)
	_, err = openDataDir(dir, layout)
	require.ErrorIs(t, err, ErrDataDir)
	require.ErrorContains(t, err, "in use by another weir: stop that one")
	require.NoError(t, d.close())
	d, err = openDataDir(dir, layout)
	require.NoError(t, err)
	require.NoError(t, d.close())
}

func TestDataDirWithoutPermission(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o500))
	_, err := openDataDir(dir, layout)
	require.ErrorIs(t, err, ErrDataDir)
	require.ErrorContains(t, err, "give it to the user that runs weir")
	_, err = openDataDir(filepath.Join(dir, "below"), layout)
	require.ErrorContains(t, err, "give this user the right to write there")
}

func TestWriteFileReplacesWholeFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f.json")
	for _, content := range []string{"one", "a longer second one", ""} {
		require.NoError(t, writeFile(path, []byte(content)))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(got))
	}
	st, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode().Perm())
	require.Error(t, writeFile(filepath.Join(path, "below"), nil))
}

func TestConfigRefusals(t *testing.T) {
	t.Parallel()
	good := Config{Dir: t.TempDir(), Layout: layout}
	for says, change := range map[string]func(*Config){
		"no data directory":          func(c *Config) { c.Dir = "" },
		"each must be at least 1":    func(c *Config) { c.Layout = schemas.Layout{Partitions: 1} },
		"needs an external cluster":  func(c *Config) { c.Durability = schemas.DurabilityReplicated },
		"stores nothing":             func(c *Config) { c.MaxBytes = -1 },
		"write it as 127.0.0.1:4222": func(c *Config) { c.Listen = "4222" },
		"the port is a number":       func(c *Config) { c.Listen = "127.0.0.1:nats" },
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			cfg := good
			cfg.Dir = t.TempDir()
			change(&cfg)
			_, err := Start(cfg)
			require.ErrorContains(t, err, says)
		})
	}
}
