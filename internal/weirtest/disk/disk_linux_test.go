//go:build nightly

package disk

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDeviceForgetsWhatWasNotFlushed(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	read := func(d *Device, at int64) byte {
		p := make([]byte, page)
		require.NoError(t, d.Read(p, at))
		return p[0]
	}
	fill := func(b byte) []byte {
		p := make([]byte, page)
		for i := range p {
			p[i] = b
		}
		return p
	}
	d := New(4 * page)
	require.NoError(t, d.Write(fill(1), 0))
	require.NoError(t, d.Flush())
	require.NoError(t, d.Write(fill(2), 0))
	require.NoError(t, d.Write(fill(3), page))
	require.EqualValues(t, 2, read(d, 0))
	after, forgot := d.Cut(random, 0)
	require.Equal(t, 16, forgot)
	require.EqualValues(t, 1, read(after, 0))
	require.EqualValues(t, 0, read(after, page))
	require.ErrorIs(t, d.Write(fill(4), 0), ErrOff)
	require.ErrorIs(t, d.Flush(), ErrOff)
	require.ErrorIs(t, d.Read(fill(0), 0), ErrOff)

	require.NoError(t, after.Write(fill(5), page))
	whole, forgot := after.Cut(random, 1)
	require.Zero(t, forgot)
	require.EqualValues(t, 5, read(whole, page))
	require.Error(t, whole.Write([]byte{1}, 0))
}
