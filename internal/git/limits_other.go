//go:build !linux

package git

import "os/exec"

type bounds struct {
	memory, file, seconds int64
}

// limit has no way to limit another process here.
func limit(int, bounds) error { return nil }

// awaitEnd waits for a child to end and collects it, as there is no way to leave it.
func awaitEnd(cmd *exec.Cmd) (collected bool, err error) { return true, cmd.Wait() }
