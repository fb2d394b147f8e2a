//go:build unix && !linux

package runner

import (
	"os/exec"
	"syscall"
)

// apart puts a command into a process group of its own.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// Hide does nothing here.
func Hide() error { return nil }
