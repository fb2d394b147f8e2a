//go:build linux

package git

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/gitwire"
	"weir/internal/weirtest/gitkit"
	"weir/schemas"
)

func TestPush(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	first := begin(t, g, "work")
	s := serve(t, g)
	dir := clone(t, s, "r1", "-b", "work")
	one := gitkit.Write(t, dir, "a", "a\n")
	gitkit.Git(t, dir, "push", "origin", "work")
	require.Equal(t, one, head(t, g, "r1", "work"))
	require.Equal(t, first, head(t, g, "r1", "main"))
	// Once more with nothing new to send, back and forth, and a large one in many pieces.
	two := gitkit.Write(t, dir, "b", strings.Repeat("0123456789", 1000))
	gitkit.Git(t, dir, "push", "-q", "origin", "work")
	three := gitkit.Write(t, dir, "big", noise(6<<20))
	out, err := client(t, dir, "push", "--progress", "origin", "work")
	require.NoError(t, err)
	require.Contains(t, out, two[:7]+".."+three[:7])
	require.Equal(t, three, head(t, g, "r1", "work"))
	clean(t, g, "r1")
}

// TestForcedPushes: with force a branch goes anywhere but away, and no further than git's checks of what is in a pack.
func TestForcedPushes(t *testing.T) {
	t.Parallel()
	amended := func(t *testing.T, dir string) []string {
		t.Helper()
		gitkit.Git(t, dir, "commit", "-q", "--amend", "-m", "other")
		return []string{"--force", "origin", "work"}
	}
	// evil pushes a commit of which this git would make none.
	evil := func(of func(parent string) (pack []byte, head string)) func(*testing.T, string) []string {
		return func(t *testing.T, dir string) []string {
			t.Helper()
			pack, head := of(gitkit.Git(t, dir, "rev-parse", "HEAD"))
			gitkit.GitIn(t, dir, pack, "unpack-objects", "-q")
			return []string{"origin", head + ":refs/heads/work"}
		}
	}
	tree := func(name string) func(*testing.T, string) []string {
		return evil(func(parent string) ([]byte, string) { return gitkit.BadTree(name, parent) })
	}
	for name, row := range map[string]struct {
		spoil func(t *testing.T, dir string) []string // and the arguments of the push
		force bool
		says  string // empty: it goes
	}{
		"not a fast-forward":                 {amended, false, "non-fast-forward"},
		"forced":                             {amended, true, ""},
		"deletion":                           {func(*testing.T, string) []string { return []string{"origin", ":work"} }, true, "deletion prohibited"},
		"git's own name in a tree":           {tree(".git"), true, "index-pack"},
		"git's own name, in other letters":   {tree(".GIT"), true, "index-pack"},
		"git's own short name":               {tree("git~1"), true, "index-pack"},
		"submodule with an option for a URL": {evil(gitkit.BadModules), true, "index-pack"},
		"submodules of a link":               {evil(gitkit.BadLink), true, "index-pack"},
		"a commit of nobody":                 {evil(gitkit.BadCommit), true, "index-pack"},
		"submodule with a path out": {func(t *testing.T, dir string) []string {
			t.Helper()
			gitkit.Write(t, dir, ".gitmodules", "[submodule \"../../x\"]\n\tpath = x\n\turl = https://example.invalid/\n")
			return []string{"origin", "work"}
		}, true, "index-pack"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := open(t, Config{})
			begin(t, g, "work")
			before := push(t, g, "a\n")
			s := serve(t, g, func(s *server) { s.force = row.force })
			dir := clone(t, s, "r1", "-b", "work")
			out, err := client(t, dir, append([]string{"push"}, row.spoil(t, dir)...)...)
			if row.says == "" {
				require.NoError(t, err)
				before = gitkit.Git(t, dir, "rev-parse", "HEAD")
			} else {
				require.Error(t, err, out)
				require.Contains(t, out, row.says)
				require.NotContains(t, out, g.cfg.Dir)
			}
			require.Equal(t, before, head(t, g, "r1", "work"))
			clean(t, g, "r1")
		})
	}
}

func TestConcurrentPushes(t *testing.T) {
	t.Parallel()
	g := open(t, Config{Processes: 3, packs: 4})
	s := serve(t, g)
	const n = 8
	dirs := make([]string, n)
	for i := range dirs {
		branch := fmt.Sprintf("work%d", i)
		begin(t, g, branch)
		dirs[i] = clone(t, s, "r1", "-b", branch)
		gitkit.Write(t, dirs[i], branch, branch)
	}
	var wg sync.WaitGroup
	outs, errs := make([]string, n), make([]error, n)
	for i, dir := range dirs {
		wg.Go(func() { outs[i], errs[i] = client(t, dir, "push", "origin", "HEAD") })
	}
	wg.Wait()
	for i, dir := range dirs {
		require.NoError(t, errs[i], outs[i])
		require.Equal(t, gitkit.Git(t, dir, "rev-parse", "HEAD"), head(t, g, "r1", fmt.Sprintf("work%d", i)))
	}
	g.Close()
	clean(t, g, "r1")
}

func TestRacingPushesOfOneBranch(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	begin(t, g, "work")
	s := serve(t, g)
	const n = 4
	var wg sync.WaitGroup
	errs, heads, dirs := make([]error, n), make([]string, n), make([]string, n)
	for i := range n {
		dirs[i] = clone(t, s, "r1", "-b", "work")
		heads[i] = gitkit.Write(t, dirs[i], strconv.Itoa(i), strconv.Itoa(i))
	}
	for i, dir := range dirs {
		wg.Go(func() { _, errs[i] = client(t, dir, "push", "-q", "origin", "work") })
	}
	wg.Wait()
	won := ""
	for i, err := range errs {
		if err == nil {
			require.Empty(t, won, "two were told that they had won")
			won = heads[i]
		}
	}
	require.Equal(t, won, head(t, g, "r1", "work"))
	clean(t, g, "r1")
}

func TestPushThatIsTooLarge(t *testing.T) {
	t.Parallel()
	g := open(t, Config{MaxPack: 1 << 20})
	begin(t, g, "work")
	s := serve(t, g)
	dir := clone(t, s, "r1", "-b", "work")
	gitkit.Write(t, dir, "noise", noise(8<<20))
	out, err := client(t, dir, "push", "origin", "work")
	require.Error(t, err)
	require.Contains(t, out, "index-pack", "the client hears git's word, although git has stopped reading")
	require.Contains(t, out, "maximum allowed size")
	require.Equal(t, head(t, g, "r1", "main"), head(t, g, "r1", "work"))
	clean(t, g, "r1")
}

func TestOddPushes(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	first := begin(t, g, "work")
	tag := pushOf("work", first, first, nil)
	tag.Command.Ref = "refs/tags/x"
	for name, p := range map[string]Push{
		"no command": {},
		"a tag":      tag,
		"no ref":     pushOf("../../config", first, first, nil),
	} {
		_, err := g.ReceivePack(t.Context(), "r1", p)
		require.Error(t, err, name)
	}
	// Old is a lie: the ref has moved.
	rep, err := g.ReceivePack(t.Context(), "r1", pushOf("work", strings.Repeat("1", 40), first, bytes.NewReader(gitwire.EmptyPack())))
	require.NoError(t, err)
	one, ok := rep.Of(schemas.RefOf("work"))
	require.True(t, ok)
	require.NotEmpty(t, one.Reason)
	// A deletion that reached git all the same.
	rep, err = g.ReceivePack(t.Context(), "r1", pushOf("work", first, zero, strings.NewReader("")))
	require.NoError(t, err)
	one, _ = rep.Of(schemas.RefOf("work"))
	require.Equal(t, "deletion prohibited", one.Reason)
	require.Equal(t, first, head(t, g, "r1", "work"))
}

func TestStaleLocksAreTakenAway(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	begin(t, g, "work")
	r, err := g.repo("r1")
	require.NoError(t, err)
	s := serve(t, g)
	dir := clone(t, s, "r1", "-b", "work")
	stale := []string{"refs/heads/work.lock", "packed-refs.lock", "objects/tmp_objdir-incoming-x/pack/y", "objects/pack/tmp_pack_x"}
	for _, name := range stale {
		path := filepath.Join(string(r), name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	gitkit.Write(t, dir, "a", "a")
	gitkit.Git(t, dir, "push", "-q", "origin", "work")
	clean(t, g, "r1")
}
