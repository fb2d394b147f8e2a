//go:build linux

package git

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/gitwire"
	"weir/internal/weirtest/gitkit"
)

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
