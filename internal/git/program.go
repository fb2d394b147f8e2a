package git

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
)

// version is git's, of which 2.39 is 2_039.
type version int

// atLeast compares with 2.minor.
func (v version) atLeast(minor version) bool { return v >= 2_000+minor }

// find finds the program, and asks for its version.
func (g *Git) find(ctx context.Context) error {
	path, err := exec.LookPath(g.cfg.Program)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return fmt.Errorf("git is not installed, or git.program does not name it: %w", err)
	}
	g.program = path
	ctx, cancel := context.WithTimeout(ctx, smallTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, g.program, "version") //nolint:gosec // the program is the operator's choice
	cmd.Env = environment(nil)
	cmd.Dir = "/"
	said, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("git version: %w", err)
	}
	if g.version, err = parseVersion(string(said)); err == nil && !g.version.atLeast(31) {
		err = fmt.Errorf("git is %d.%d, and must be 2.31 or newer", g.version/1_000, g.version%1_000)
	}
	return err
}

// parseVersion reads "git version 2.39.5 (and more)".
func parseVersion(s string) (version, error) {
	var major, minor version
	if _, err := fmt.Sscanf(s, "git version %d.%d", &major, &minor); err != nil {
		return 0, errors.New("the program that git.program names is not git")
	}
	return 1_000*major + minor, nil
}

// setting is one line of git's configuration.
type setting struct{ key, value string }

// environment is all that a process of git's sees of the world. Git itself adds to PATH where its parts are.
func environment(settings []setting, more ...string) []string {
	env := []string{
		"PATH=/nonexistent",
		"HOME=/nonexistent",
		"LC_ALL=C",
		"TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_NO_REPLACE_OBJECTS=1", // a ref must not put one object in another's place
		"GIT_OPTIONAL_LOCKS=0",
		"MALLOC_ARENA_MAX=1", // each more of them reserves 64 MiB of the address space
		"GIT_DEFAULT_HASH=sha1",
		"GIT_DEFAULT_REF_FORMAT=files",
		"GIT_CONFIG_COUNT=" + strconv.Itoa(len(settings)),
	}
	for i, s := range settings {
		n := strconv.Itoa(i)
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+s.key, "GIT_CONFIG_VALUE_"+n+"="+s.value)
	}
	return append(env, more...)
}

// harmless are git's names of faults that old histories have, and that git checks in what is new alone.
func harmless() []string {
	return []string{"zeroPaddedFilemode", "missingSpaceBeforeDate", "badTimezone"}
}

// settings are those of every process. Whatever a repository's own configuration
// says, these come later.
func (g *Git) settings() []setting {
	list := []setting{
		// The directory is Weir's whichever user owns it on disk, as a volume may have it.
		{"safe.directory", "*"},
		{"core.hooksPath", "/dev/null"},
		{"core.fsmonitor", "false"},
		{"core.logAllRefUpdates", "false"},
		{"credential.helper", ""},
		{"protocol.allow", "never"},
		{"gc.auto", "0"},
		{"maintenance.auto", "false"},
		// Memory: objects over the threshold are streamed where git can, packs are mapped in
		// pieces, and one thread does what else each of several would need memory for.
		{"core.bigFileThreshold", "32m"},
		{"core.packedGitWindowSize", "32m"},
		{"core.packedGitLimit", "256m"},
		{"core.deltaBaseCacheLimit", "32m"},
		{"pack.threads", "1"},
		{"pack.windowMemory", "64m"},
		{"pack.deltaCacheSize", "64m"},
		// Every push stays a pack: it takes a few syncs however many objects it has.
		{"transfer.unpackLimit", "1"},
		{"transfer.fsckObjects", "true"},
	}
	for _, id := range harmless() {
		list = append(list, setting{"receive.fsck." + id, "ignore"})
	}
	if g.version.atLeast(36) {
		return append(list, setting{"core.fsync", "all"}, setting{"core.fsyncMethod", "fsync"})
	}
	return append(list, setting{"core.fsyncObjectFiles", "true"})
}

// uploading are the settings for a fetch.
func uploading() []setting {
	return []setting{
		{"uploadpack.allowTipSHA1InWant", "false"},
		{"uploadpack.allowReachableSHA1InWant", "false"},
		{"uploadpack.allowAnySHA1InWant", "false"},
		{"uploadpack.allowRefInWant", "false"},
		{"uploadpack.allowFilter", "true"},
		{"uploadpackfilter.allow", "false"},
		{"uploadpackfilter.blob:none.allow", "true"},
		{"uploadpackfilter.blob:limit.allow", "true"},
	}
}

// receiving are the settings for a push.
func (g *Git) receiving(force bool) []setting {
	return []setting{
		{"receive.fsckObjects", "true"},
		{"receive.maxInputSize", strconv.FormatInt(g.cfg.MaxPack, 10)},
		{"receive.denyNonFastForwards", strconv.FormatBool(!force)},
		{"receive.denyDeletes", "true"},
		{"receive.denyDeleteCurrent", "true"},
		{"receive.shallowUpdate", "false"},
		{"receive.advertisePushOptions", "false"},
		{"receive.autogc", "false"},
		// A quarantine has the repository as an alternate, whose refs are counted already.
		{"core.alternateRefsPrefixes", "refs/none"},
		{"receive.updateServerInfo", "false"},
	}
}
