package embedded

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// fsSyncer returns a function that writes all cached data of dir's file system to the disk, and one
// that releases it. The descriptor stays open, because the kernel reports a lost write to every
// descriptor that was open at that time. Linux 5.8 and later do so; in older kernels syncfs
// succeeds anyway. A nil sync means that this kernel or file system has no such call.
func fsSyncer(dir string) (syncAll, release func() error, err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, noRelease, err
	}
	syncAll = func() error {
		for {
			if err := unix.Syncfs(int(d.Fd())); !errors.Is(err, unix.EINTR) {
				return err
			}
		}
	}
	switch err := syncAll(); {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EPERM):
		return nil, d.Close, nil
	case err != nil:
		return nil, noRelease, errors.Join(err, d.Close())
	}
	return syncAll, d.Close, nil
}

// freeBytes is what an ordinary user may still write on dir's file system.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil //nolint:gosec // no disk overflows it
}
