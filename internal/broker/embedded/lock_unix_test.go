//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package embedded

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/schemas"
)

// TestDataDirIsFreeOnceClosed: a copy of the lock's descriptor, as a child process has one before
// it runs its program, does not keep the directory.
func TestDataDirIsFreeOnceClosed(t *testing.T) {
	t.Parallel()
	path, layout := t.TempDir(), schemas.Layout{Partitions: 1}
	d := must(openDataDir(path, layout))(t)
	child := must(unix.Dup(int(d.lock.Fd())))(t)
	require.NoError(t, d.close())
	d = must(openDataDir(path, layout))(t)
	require.NoError(t, d.close())
	require.NoError(t, unix.Close(child))
}
