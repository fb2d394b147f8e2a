//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package git

import (
	"os"
	"os/exec"
)

// Without process groups a child of git's may outlive it.

func ownGroup(*exec.Cmd) {}

func endGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func reapGroup(*exec.Cmd) {}

// tryLock cannot lock here: what runs in another process is not noticed.
func tryLock(*os.File, bool) (held bool, err error) { return true, nil }
