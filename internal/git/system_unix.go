//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package git

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ownGroup gives a process a group of its own, so that all of it can be ended.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// endGroup asks a group to end. Its first process must not have been collected yet: the number could be another group's.
func endGroup(cmd *exec.Cmd) { _ = unix.Kill(-cmd.Process.Pid, unix.SIGTERM) }

// killGroup ends a group, under the same condition.
func killGroup(cmd *exec.Cmd) { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }

// reapGroup ends what is left of a group whose first process was collected, and waits for that, but not for long. Those
// of its processes whose parent is gone are this program's own where it is the first process of
// a container: no other process collects them.
func reapGroup(cmd *exec.Cmd) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for range 100 {
		for {
			if n, err := unix.Wait4(-cmd.Process.Pid, nil, unix.WNOHANG, nil); n <= 0 && !errors.Is(err, unix.EINTR) {
				break
			}
		}
		if errors.Is(unix.Kill(-cmd.Process.Pid, unix.SIGKILL), unix.ESRCH) {
			return
		}
		<-tick.C
	}
}

// tryLock takes a lock, or changes the one that the file has, or says at once that
// another process has it. It belongs to the open file and to all that inherit it: the kernel
// gives it back when the last of them is closed, however that comes.
func tryLock(f *os.File, alone bool) (held bool, err error) {
	how := unix.LOCK_SH
	if alone {
		how = unix.LOCK_EX
	}
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
