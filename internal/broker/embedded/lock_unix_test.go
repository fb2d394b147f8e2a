//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package embedded

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A process that is being started has a copy of every open file until it runs its program.
// Such a copy must not keep the lock of a directory that was closed.
func TestACopyOfTheLockFileKeepsNoLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := openDataDir(dir, layout)
	require.NoError(t, err)
	held, err := unix.Dup(int(d.lock.Fd()))
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(held)) }()
	require.NoError(t, d.close())
	d, err = openDataDir(dir, layout)
	require.NoError(t, err)
	require.NoError(t, d.close())
}
