//go:build !linux

package git

import "os/exec"

// limit has no way to limit another process here.
func limit(int, int64, int64, int64, int64) error { return nil }

// awaitEnd has no way here to wait for a child without collecting it: reapGroup ends what it leaves.
func awaitEnd(*exec.Cmd) bool { return false }

// space has no way here to look at a disk.
func space(string) (free, all int64, err error) { return 0, 0, nil }
