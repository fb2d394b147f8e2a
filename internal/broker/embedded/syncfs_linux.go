package embedded

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// syncFS writes all cached data of a file's file system to the disk. The file must stay open between
// two syncs, because the kernel reports a lost write to every descriptor that was open at that time.
// Linux 5.8 and later do so; in older kernels syncfs succeeds anyway. If this kernel or file system
// has no such call, the error is errors.ErrUnsupported.
func syncFS(f *os.File) error {
	for {
		err := unix.Syncfs(int(f.Fd()))
		switch {
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EPERM):
			return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
		case !errors.Is(err, unix.EINTR):
			return err
		}
	}
}

// freeBytes is what an ordinary user may still write on dir's file system.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil //nolint:gosec // no disk overflows it
}
