//go:build linux

package git

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/gitwire"
	"weir/internal/weirtest/gitkit"
)

func TestRepositoryAtItsLimit(t *testing.T) {
	t.Parallel()
	g := open(t, Config{MaxRepo: 1 << 20})
	begin(t, g, "work")
	s := serve(t, g)
	push(t, g, noise(900<<10))
	full := push(t, g, "x"+noise(900<<10)) // up to the limit it goes
	dir := clone(t, s, "r1", "-b", "work")
	gitkit.Write(t, dir, "more", "more")
	_, err := client(t, dir, "push", "-q", "origin", "work")
	require.Error(t, err)
	require.ErrorIs(t, <-s.fails, ErrFull)
	require.Equal(t, full, head(t, g, "r1", "work"))
	// And no file of a push may be larger.
	_, err = g.Create(t.Context(), "r2", "main")
	require.NoError(t, err)
	begun, err := g.Branch(t.Context(), "r2", "work", "main", "t")
	require.NoError(t, err)
	pack, oid := gitkit.GoodCommit(noise(3<<20), begun)
	rep, err := g.ReceivePack(t.Context(), "r2", pushOf("work", begun, oid, bytes.NewReader(pack)))
	require.NoError(t, err)
	require.NotEqual(t, gitwire.UnpackOK, rep.Unpack)
	clean(t, g, "r2")
}

func TestDeltaBombIsBoundedByMemory(t *testing.T) {
	t.Parallel()
	const memory = 192 << 20
	for _, row := range []struct {
		size int64
		good bool
	}{{32 << 20, true}, {400 << 20, false}} {
		g := open(t, Config{Memory: memory})
		first := begin(t, g, "work")
		// The branch goes where it is: all that git has against the push is its pack.
		rep, err := g.ReceivePack(t.Context(), "r1", pushOf("work", first, first, bytes.NewReader(gitkit.DeltaBomb(row.size))))
		require.NoError(t, err)
		require.Equal(t, row.good, rep.Unpack == gitwire.UnpackOK, rep.Unpack)
		require.Empty(t, childrenOf(g.cfg.Dir))
		if !row.good {
			clean(t, g, "r1")
		}
	}
}
