//go:build linux

package git

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/gitwire"
	"weir/schemas"
)

func TestPush(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	first := begin(t, g, "work")
	s := serve(t, g)
	dir := clone(t, s, "r1", "-b", "work")
	one := commit(t, dir, "a", "a\n")
	must(t, dir, "push", "origin", "work")
	require.Equal(t, one, head(t, g, "r1", "work"))
	require.Equal(t, first, head(t, g, "r1", "main"))
	// Once more with nothing new to send, back and forth, and a large one in many pieces.
	two := commit(t, dir, "b", strings.Repeat("0123456789", 1000))
	must(t, dir, "push", "-q", "origin", "work")
	big := make([]byte, 6<<20)
	_, _ = noisy{}.Read(big)
	three := commit(t, dir, "big", string(big))
	out := must(t, dir, "push", "--progress", "origin", "work")
	require.Contains(t, out, two[:7]+".."+three[:7])
	require.Equal(t, three, head(t, g, "r1", "work"))
	clean(t, g, "r1")
}

func TestRefusedPushesSayWhy(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		spoil func(t *testing.T, dir string) []string // and the arguments of the push
		force bool
		says  string
	}{
		"not a fast-forward": {func(t *testing.T, dir string) []string {
			t.Helper()
			must(t, dir, "commit", "-q", "--amend", "-m", "other")
			return []string{"--force", "origin", "work"}
		}, false, "non-fast-forward"},
		"deletion": {func(*testing.T, string) []string {
			return []string{"origin", ":work"}
		}, true, "deletion prohibited"},
		"git's own name in a tree": {func(t *testing.T, dir string) []string {
			t.Helper()
			return []string{"origin", badTree(t, dir, ".git") + ":refs/heads/work"}
		}, true, "index-pack"},
		"git's own name, in other letters": {func(t *testing.T, dir string) []string {
			t.Helper()
			return []string{"origin", badTree(t, dir, ".GIT") + ":refs/heads/work"}
		}, true, "index-pack"},
		"git's own short name": {func(t *testing.T, dir string) []string {
			t.Helper()
			return []string{"origin", badTree(t, dir, "git~1") + ":refs/heads/work"}
		}, true, "index-pack"},
		"submodule with an option for a URL": {func(t *testing.T, dir string) []string {
			t.Helper()
			commit(t, dir, ".gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = --upload-pack=id\n")
			return []string{"origin", "work"}
		}, true, "index-pack"},
		"submodule with a path out": {func(t *testing.T, dir string) []string {
			t.Helper()
			commit(t, dir, ".gitmodules", "[submodule \"../../x\"]\n\tpath = x\n\turl = https://example.invalid/\n")
			return []string{"origin", "work"}
		}, true, "index-pack"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := open(t, Config{})
			begin(t, g, "work")
			s := serve(t, g)
			dir := clone(t, s, "r1", "-b", "work")
			before := commit(t, dir, "a", "a\n")
			must(t, dir, "push", "-q", "origin", "work")
			if row.force {
				must(t, dir, "remote", "set-url", "origin", serve(t, g, forced).URL+"/r1")
			}
			out, err := client(t, dir, append([]string{"push"}, row.spoil(t, dir)...)...)
			require.Error(t, err, out)
			require.Contains(t, out, row.says)
			require.NotContains(t, out, g.cfg.Dir)
			require.Equal(t, before, head(t, g, "r1", "work"))
			clean(t, g, "r1")
		})
	}
}

// badTree makes a commit with a directory of a name that no good git would write.
func badTree(t *testing.T, dir, name string) string {
	t.Helper()
	blob := must(t, dir, "rev-parse", "HEAD:a")
	var raw bytes.Buffer
	fmt.Fprintf(&raw, "100644 %s\x00", name)
	for i := 0; i < len(blob); i += 2 {
		var b byte
		_, err := fmt.Sscanf(blob[i:i+2], "%02x", &b)
		require.NoError(t, err)
		raw.WriteByte(b)
	}
	file := filepath.Join(t.TempDir(), "tree")
	require.NoError(t, os.WriteFile(file, raw.Bytes(), 0o600))
	tree := must(t, dir, "hash-object", "-t", "tree", "-w", "--literally", file)
	return must(t, dir, "commit-tree", "-p", "HEAD", "-m", "bad", tree)
}

func TestForce(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	begin(t, g, "work")
	s := serve(t, g, forced)
	dir := clone(t, s, "r1", "-b", "work")
	commit(t, dir, "a", "a\n")
	must(t, dir, "push", "-q", "origin", "work")
	must(t, dir, "commit", "-q", "--amend", "-m", "other")
	must(t, dir, "push", "-q", "--force", "origin", "work")
	require.Equal(t, must(t, dir, "rev-parse", "HEAD"), head(t, g, "r1", "work"))
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
		commit(t, dirs[i], branch, branch)
	}
	var wg sync.WaitGroup
	outs, errs := make([]string, n), make([]error, n)
	for i, dir := range dirs {
		wg.Go(func() { outs[i], errs[i] = client(t, dir, "push", "origin", "HEAD") })
	}
	wg.Wait()
	for i, dir := range dirs {
		require.NoError(t, errs[i], outs[i])
		require.Equal(t, must(t, dir, "rev-parse", "HEAD"), head(t, g, "r1", fmt.Sprintf("work%d", i)))
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
		heads[i] = commit(t, dirs[i], strconv.Itoa(i), strconv.Itoa(i))
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

func TestPushIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	g := open(t, Config{MaxPack: 1 << 20})
	begin(t, g, "work")
	var read atomic.Int64
	s := serve(t, g, func(s *server) {
		s.pack = func(r io.Reader) io.Reader { return io.TeeReader(r, counter{&read}) }
	})
	dir := clone(t, s, "r1", "-b", "work")
	noise := make([]byte, 8<<20)
	_, _ = noisy{}.Read(noise)
	commit(t, dir, "noise", string(noise))
	out, err := client(t, dir, "push", "origin", "work")
	require.Error(t, err)
	require.Contains(t, out, "index-pack", "the client hears git's word, although git has stopped reading")
	require.Contains(t, out, "maximum allowed size")
	require.Greater(t, read.Load(), int64(8<<20))
	require.Equal(t, head(t, g, "r1", "main"), head(t, g, "r1", "work"))
	clean(t, g, "r1")
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(b []byte) (int, error) { c.n.Add(int64(len(b))); return len(b), nil }

func TestOddPushes(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	first := begin(t, g, "work")
	two := pushOf("p", "work", first, first, nil)
	two.Commands.List = append(two.Commands.List, two.Commands.List[0])
	tag := pushOf("p", "work", first, first, nil)
	tag.Commands.List[0].Ref = "refs/tags/x"
	for name, p := range map[string]Push{
		"no command":   {ID: "p"},
		"two commands": two,
		"a tag":        tag,
		"no ref":       pushOf("p", "../../config", first, first, nil),
		"no name":      pushOf("a/b", "work", first, first, nil),
	} {
		_, err := g.ReceivePack(t.Context(), "r1", p)
		require.Error(t, err, name)
	}
	// Old is a lie: the ref has moved.
	rep, err := g.ReceivePack(t.Context(), "r1", pushOf("p", "work", strings.Repeat("1", 40), first, bytes.NewReader(gitwire.EmptyPack())))
	require.NoError(t, err)
	one, ok := rep.Of(schemas.RefOf("work"))
	require.True(t, ok)
	require.NotEmpty(t, one.Reason)
	// A deletion that reached git all the same.
	rep, err = g.ReceivePack(t.Context(), "r1", pushOf("p", "work", first, zero, strings.NewReader("")))
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
	commit(t, dir, "a", "a")
	must(t, dir, "push", "-q", "origin", "work")
	clean(t, g, "r1")
}
