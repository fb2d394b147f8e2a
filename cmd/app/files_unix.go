//go:build linux || darwin || netbsd || openbsd

package app

import "syscall"

// openFiles is how many files this process may have open. The runtime has
// raised the soft limit to the hard one already.
func openFiles() (uint64, bool) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return limit.Cur, err == nil
}
