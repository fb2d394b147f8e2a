//go:build linux

package git

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/gitwire"
)

func TestRepositoryAtItsLimit(t *testing.T) {
	t.Parallel()
	g := open(t, Config{MaxRepo: 1 << 20})
	first := begin(t, g, "work")
	s := serve(t, g)
	dir := clone(t, s, "r1", "-b", "work")
	noise := make([]byte, 900<<10)
	_, _ = noisy{}.Read(noise)
	commit(t, dir, "noise", string(noise))
	must(t, dir, "push", "-q", "origin", "work")
	_, _ = noisy{}.Read(noise[1:])
	full := commit(t, dir, "noise2", string(noise))
	must(t, dir, "push", "-q", "origin", "work") // up to the limit it goes
	commit(t, dir, "more", "more")
	_, err := client(t, dir, "push", "-q", "origin", "work")
	require.Error(t, err)
	require.ErrorIs(t, <-s.fails, ErrFull)
	require.Equal(t, full, head(t, g, "r1", "work"))
	// And no file of a push may be larger.
	_, err = g.Create(t.Context(), "r2", "main")
	require.NoError(t, err)
	_, err = g.Branch(t.Context(), "r2", "work", "main", "t")
	require.NoError(t, err)
	begun := head(t, g, "r2", "work")
	noise = make([]byte, 3<<20)
	_, _ = noisy{}.Read(noise)
	must(t, dir, "checkout", "-q", "--orphan", "big")
	oid := commit(t, dir, "noise3", string(noise))
	rep, err := g.ReceivePack(t.Context(), "r2", pushOf("p", "work", begun, oid, bytes.NewReader(packOf(t, dir, oid))))
	require.NoError(t, err)
	require.NotEqual(t, gitwire.UnpackOK, rep.Unpack)
	clean(t, g, "r2")
	require.NotEqual(t, first, full)
}

func TestDeltaBombIsBoundedByMemory(t *testing.T) {
	t.Parallel()
	const memory = 192 << 20
	for _, row := range []struct {
		copies int
		good   bool
	}{{2, true}, {24, false}} {
		g := open(t, Config{Memory: memory})
		first := begin(t, g, "work")
		// The branch goes where it is: all that git has against the push is its pack.
		rep, err := g.ReceivePack(t.Context(), "r1", pushOf("p1", "work", first, first, bytes.NewReader(deltaBomb(t, row.copies))))
		require.NoError(t, err)
		require.Equal(t, row.good, rep.Unpack == gitwire.UnpackOK, rep.Unpack)
		require.Empty(t, childrenOf(g.cfg.Dir))
		if !row.good {
			clean(t, g, "r1")
		}
	}
}

// deltaBomb is a pack of a few KiB with an object of so many times 16 MiB.
func deltaBomb(t *testing.T, copies int) []byte {
	t.Helper()
	base := make([]byte, 1<<24-1)
	id := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(base)), base...))
	var delta []byte
	for _, n := range []int{len(base), len(base) * copies} {
		delta = binary.AppendUvarint(delta, uint64(n))
	}
	for range copies {
		delta = append(delta, 0x80|0x70, 0xff, 0xff, 0xff) // copy from 0 as much as one can
	}
	pack := append([]byte("PACK"), 0, 0, 0, 2, 0, 0, 0, 2)
	pack = appendObject(t, pack, 3, base, nil)
	pack = appendObject(t, pack, 7, delta, id[:])
	sum := sha1.Sum(pack)
	return append(pack, sum[:]...)
}

func appendObject(t *testing.T, pack []byte, kind byte, data, before []byte) []byte {
	t.Helper()
	n := len(data)
	c := kind<<4 | byte(n&15)
	for n >>= 4; n > 0; n >>= 7 {
		pack = append(pack, c|0x80)
		c = byte(n & 0x7f)
	}
	pack = append(append(pack, c), before...)
	var out bytes.Buffer
	z := zlib.NewWriter(&out)
	_, err := z.Write(data)
	require.NoError(t, errors.Join(err, z.Close()))
	return append(pack, out.Bytes()...)
}
