package cli

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"

	"weir/internal/weirtest/table"
)

func TestBuilt(t *testing.T) {
	t.Parallel()
	type testCase struct {
		main, vcs, release, revision string
		version, commit              string
	}
	table.Run(t, map[string]testCase{
		"a release":                  {"(devel)", "", "v1.2.3", "abc", "v1.2.3", "abc"},
		"a release in a checkout":    {"v0.0.0-2026-abc", "abc", "v1.2.3", "def", "v1.2.3", "def"},
		"a module":                   {"v1.2.3", "", "", "", "v1.2.3", ""},
		"a checkout":                 {"v0.0.0-2026-abc+dirty", "abc", "", "", "v0.0.0-2026-abc+dirty", "abc"},
		"a build without repository": {"(devel)", "", "", "", "unknown", ""},
		"no build information":       {"", "", "", "", "unknown", ""},
	}, func(t *testing.T, tt testCase) {
		info := &debug.BuildInfo{Main: debug.Module{Version: tt.main}}
		if tt.vcs != "" {
			info.Settings = []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: tt.vcs}}
		}
		b := built(info, tt.release, tt.revision)
		assert.Equal(t, tt.version, b.Version)
		assert.Equal(t, tt.commit, b.Revision)
	})
}
