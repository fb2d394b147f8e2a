package git

import (
	"errors"
	"os/exec"

	"golang.org/x/sys/unix"
)

// openFiles is how many a process may have open; git closes packs to stay below.
const openFiles = 1024

// limit limits a process, and the children that it starts from then on.
func limit(pid int, memory, heap, file, seconds int64) error {
	for _, one := range []struct {
		what int
		n    int64
	}{
		{unix.RLIMIT_AS, memory},
		{unix.RLIMIT_DATA, heap},
		{unix.RLIMIT_FSIZE, file},
		{unix.RLIMIT_CPU, seconds},
		{unix.RLIMIT_NOFILE, openFiles},
		{unix.RLIMIT_CORE, 0},
	} {
		var now unix.Rlimit
		err := unix.Prlimit(pid, one.what, nil, &now)
		if err == nil {
			n := min(uint64(max(one.n, 0)), now.Max) // no process may raise it
			err = unix.Prlimit(pid, one.what, &unix.Rlimit{Cur: n, Max: n}, nil)
		}
		// One that is so fast that it has ended needs no limit.
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// awaitEnd waits for a child to end and leaves it to be collected: until then its
// number, and its group's, is not given to another process.
func awaitEnd(cmd *exec.Cmd) bool {
	for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	return true
}

// space is how much of the file system of a directory is free, and how large that is.
func space(dir string) (free, all int64, err error) {
	var st unix.Statfs_t
	err = unix.Statfs(dir, &st)
	return int64(st.Bavail) * st.Bsize, int64(st.Blocks) * st.Bsize, err //nolint:gosec // no disk has more
}
