//go:build nightly

package disk

import (
	"crypto/rand"
	mrand "math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDeviceForgetsWhatWasNotFlushed(t *testing.T) {
	t.Parallel()
	random := mrand.New(mrand.NewPCG(1, 1))
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

func TestVolumeForgetsWhatWasNotSynced(t *testing.T) { //nolint:paralleltest // its process is its own
	if why := Unavailable(); why != "" {
		t.Logf("no device here: %s", why)
		return
	}
	if !Inside(t) {
		return
	}
	dir := t.TempDir()
	dev, err := Format(dir, 64<<20)
	require.NoError(t, err)
	v, err := Mount(dev, dir)
	require.NoError(t, err)
	content := make([]byte, 100_000)
	_, _ = rand.Read(content)
	synced, err := os.Create(filepath.Join(v.Dir, "synced"))
	require.NoError(t, err)
	_, err = synced.Write(content)
	require.NoError(t, err)
	require.NoError(t, synced.Sync())
	require.NoError(t, synced.Close())
	require.NoError(t, os.WriteFile(filepath.Join(v.Dir, "lost"), content, 0o600))
	_, flushes := dev.Counts()
	require.Positive(t, flushes, "a sync must reach the device")

	dev, _ = dev.Cut(mrand.New(mrand.NewPCG(1, 1)), 0)
	require.NoError(t, v.Unmount())
	v, err = Mount(dev, dir)
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(v.Dir, "synced"))
	require.NoError(t, err)
	require.Equal(t, content, got)
	_, err = os.Stat(filepath.Join(v.Dir, "lost"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, v.Unmount())
}
