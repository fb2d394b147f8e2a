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
	"weir/schemas"
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
		one, _ := rep.Of(schemas.RefOf("work"))
		require.Equal(t, row.says, one.Reason, name)
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
