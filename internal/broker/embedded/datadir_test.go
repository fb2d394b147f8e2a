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
	d := must(openDataDir(dir, layout))(t)
	raw := must(os.ReadFile(filepath.Join(dir, markerName)))(t)
	require.JSONEq(t, `{"format":2,"partitions":1}`, string(raw))
	st := must(os.Stat(dir))(t)
	require.Equal(t, os.FileMode(0o700), st.Mode().Perm())
	require.NoError(t, d.close())

	d = must(openDataDir(dir, layout))(t)
	require.NoError(t, d.close())
	files := must(os.ReadDir(dir))(t)
	require.Len(t, files, 2, "nothing temporary is left")
}

func TestDataDirRefusals(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file, content string // what lies in the directory; content "/": a directory
		below         string // what is opened of it
		says          []string
	}{
		"newer format":          {markerName, `{"format":3,"partitions":1}`, "", []string{"has format 3", "reads format 2", "run the weir that wrote it"}},
		"other partitions":      {markerName, `{"format":2,"partitions":4}`, "", []string{"has 4 partitions and 1 are configured", "configure 4"}},
		"damaged marker":        {markerName, `{"for`, "", []string{"is damaged", "restore it"}},
		"empty marker":          {markerName, ``, "", []string{"is damaged", "restore it"}},
		"somebody else's store": {storeName, "/", "", []string{"holds a message store and no weir.json", "name another directory"}},
		"a file":                {"f", "", "f", []string{"is a file", "name a directory"}},
		"below a file":          {"f", "", "f/x", []string{"cannot be created", "name another directory"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, tc.file)
			if tc.content == "/" {
				require.NoError(t, os.Mkdir(path, 0o700))
			} else {
				require.NoError(t, os.WriteFile(path, []byte(tc.content), 0o600))
			}
			_, err := openDataDir(filepath.Join(dir, tc.below), layout)
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
	d := must(openDataDir(dir, layout))(t)
	_, err := openDataDir(dir, layout)
	require.ErrorIs(t, err, ErrDataDir)
	require.ErrorContains(t, err, "in use by another weir: stop that one")
	require.NoError(t, d.close())
	d = must(openDataDir(dir, layout))(t)
	require.NoError(t, d.close())
}

func TestConfigRefusals(t *testing.T) {
	t.Parallel()
	good := Config{Dir: t.TempDir(), Layout: layout}
	for says, change := range map[string]func(*Config){
		"no data directory":          func(c *Config) { c.Dir = "" },
		"there must be at least 1":   func(c *Config) { c.Layout = schemas.Layout{} },
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
