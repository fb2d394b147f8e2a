//go:build !linux

package runner

import (
	"context"
	"errors"
	"io"
	"syscall"

	"weir/schemas"
)

// Hide does nothing here.
func Hide() error { return nil }

func endWithParent(*syscall.SysProcAttr) {}

// Sandbox is for Linux alone.
type Sandbox struct{}

// NewSandbox says so.
func NewSandbox(context.Context, []string) (*Sandbox, error) {
	return nil, errors.New("--sandbox needs Linux and bubblewrap; run the runner there, or its command in a container")
}

func (*Sandbox) prepare(*runner, *schemas.LeasedTask, string) (*process, error) {
	return nil, errors.ErrUnsupported
}

// RelayCommand is the hidden command of this program that runs in the sandbox.
const RelayCommand = "runner-relay"

// Relay is for Linux alone.
func Relay(context.Context, string, io.Reader) (int, error) { return 0, errors.ErrUnsupported }
