//go:build unix

package runner

import (
	"os/exec"
	"syscall"
)

// ownGroup puts a command into a process group of its own. Where the system can, the command ends with the runner.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithParent(cmd.SysProcAttr)
}

// ask asks everything in the command's group to end.
func ask(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) } // the group may be empty

// kill ends everything in the command's group.
func kill(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // the group may be empty
