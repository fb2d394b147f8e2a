package embedded

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// fsSyncer returns a function that writes all cached data of a file's file system to the disk. The
// file stays open, because the kernel reports a lost write to every descriptor that was open at that
// time. Linux 5.8 and later do so; in older kernels syncfs succeeds anyway. A nil sync means that
// this kernel or file system has no such call.
func fsSyncer(f *os.File) (syncAll func() error, err error) {
	syncAll = func() error {
		for {
			if err := unix.Syncfs(int(f.Fd())); !errors.Is(err, unix.EINTR) {
				return err
			}
		}
	}
	err = syncAll()
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
		return nil, nil //nolint:nilnil // see above
	}
	return syncAll, err
}

// freeBytes is what an ordinary user may still write on dir's file system.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil //nolint:gosec // no disk overflows it
}
