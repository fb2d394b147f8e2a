//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package git

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock takes a lock, or changes the one that the file has, or says at once that
// somebody is in the way. It belongs to the open file and to all that inherit it: the kernel
// gives it back when the last of them is closed, however that comes.
func tryLock(f *os.File, kind lockKind) (held bool, err error) {
	how := unix.LOCK_SH
	if kind == exclusive {
		how = unix.LOCK_EX
	}
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
