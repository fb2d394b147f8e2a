//go:build !unix

package git

import "os/exec"

// Without process groups a child of git's may outlive it.

func ownGroup(*exec.Cmd) {}

func endGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func reapGroup(*exec.Cmd) {}
