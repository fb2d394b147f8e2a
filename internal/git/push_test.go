//go:build linux

package git

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/gitwire"
	"weir/internal/weirtest/gitkit"
)

// TestRefusedPushes: with force a branch goes anywhere but away, and no further than git's checks of what is in a pack.
func TestRefusedPushes(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	begin(t, g)
	before := push(t, g, "a\n")
	aside := func(string) ([]byte, string) { return gitkit.GoodCommit("x", "") }
	for name, row := range map[string]struct {
		pack  func(parent string) (pack []byte, head string)
		force bool
		says  string
	}{
		"not a fast-forward":                 {aside, false, "non-fast-forward"},
		"git's own name in a tree":           {func(parent string) ([]byte, string) { return gitkit.BadTree(".git", parent) }, true, "unpacker error"},
		"submodule with an option for a URL": {gitkit.BadModules, true, "unpacker error"},
		"submodules of a link":               {gitkit.BadLink, true, "unpacker error"},
		"a commit of nobody":                 {gitkit.BadCommit, true, "unpacker error"},
	} {
		pack, oid := row.pack(before)
		p := pushOf("work", before, oid, bytes.NewReader(pack))
		p.Force = row.force
		p.Progress = func(b []byte) { require.NotContains(t, string(b), g.cfg.Dir) }
		rep, err := g.ReceivePack(t.Context(), "r1", p)
		require.NoError(t, err, name)
		require.Equal(t, row.says, rep.Reason, name)
		require.NotContains(t, rep.Unpack, g.cfg.Dir)
		require.Equal(t, before, head(t, g, "r1", "work"), name)
		clean(t, g, "r1")
	}
	pack, oid := aside("")
	p := pushOf("work", before, oid, bytes.NewReader(pack))
	p.Force = true
	_, err := g.ReceivePack(t.Context(), "r1", p)
	require.NoError(t, err)
	require.Equal(t, oid, head(t, g, "r1", "work"))
}

func TestOddPushes(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	first := begin(t, g)
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
	require.NotEmpty(t, rep.Reason)
	// A deletion that reached git all the same.
	rep, err = g.ReceivePack(t.Context(), "r1", pushOf("work", first, zero, strings.NewReader("")))
	require.NoError(t, err)
	require.Equal(t, "deletion prohibited", rep.Reason)
	require.Equal(t, first, head(t, g, "r1", "work"))
}

func TestStaleLocksAreTakenAway(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	begin(t, g)
	r, err := g.repo("r1")
	require.NoError(t, err)
	stale := []string{"refs/heads/work.lock", "packed-refs.lock", "objects/tmp_objdir-incoming-x/pack/y", "objects/pack/tmp_pack_x"}
	for _, name := range stale {
		path := filepath.Join(string(r), name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	push(t, g, "a")
	clean(t, g, "r1")
}

// TestLimits: a push may go up to the limit of its repository, and beyond that there is none. No pack is larger than
// its own limit, and no file of a push than the repository's.
func TestLimits(t *testing.T) {
	t.Parallel()
	g := open(t, Config{MaxRepo: 1 << 20, MaxPack: 2 << 20})
	first := begin(t, g)
	_, err := g.Create(t.Context(), "r2", "main")
	require.NoError(t, err)
	_, err = g.Branch(t.Context(), "r2", "work", "main", "t")
	require.NoError(t, err)
	for _, size := range []int{1 << 20, 3 << 20} {
		pack, oid := gitkit.GoodCommit(noise(size), first)
		rep, err := g.ReceivePack(t.Context(), "r2", pushOf("work", head(t, g, "r2", "work"), oid, bytes.NewReader(pack)))
		require.NoError(t, err)
		require.NotEqual(t, gitwire.UnpackOK, rep.Unpack)
		clean(t, g, "r2")
	}
	small := open(t, Config{MaxPack: 1 << 20})
	begun := begin(t, small)
	large, oid := gitkit.GoodCommit(noise(2<<20), begun)
	rep, err := small.ReceivePack(t.Context(), "r1", pushOf("work", begun, oid, bytes.NewReader(large)))
	require.NoError(t, err)
	require.NotEqual(t, gitwire.UnpackOK, rep.Unpack, "the limit of a pack alone")
	push(t, g, noise(900<<10))
	full := push(t, g, "x"+noise(900<<10))
	pack, oid := gitkit.GoodCommit("more", full)
	_, err = g.ReceivePack(t.Context(), "r1", pushOf("work", full, oid, bytes.NewReader(pack)))
	require.ErrorIs(t, err, ErrFull)
	require.Equal(t, full, head(t, g, "r1", "work"))
}

func TestDeltaBombIsBoundedByMemory(t *testing.T) {
	t.Parallel()
	g := open(t, Config{Memory: 192 << 20})
	first := begin(t, g)
	// The branch goes where it is: all that git has against the push is its pack.
	rep, err := g.ReceivePack(t.Context(), "r1", pushOf("work", first, first, bytes.NewReader(gitkit.DeltaBomb(400<<20))))
	require.NoError(t, err)
	require.NotEqual(t, gitwire.UnpackOK, rep.Unpack)
	require.Empty(t, childrenOf(g.cfg.Dir))
	clean(t, g, "r1")
}
