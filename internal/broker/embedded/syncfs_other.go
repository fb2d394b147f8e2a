//go:build !linux

package embedded

import (
	"errors"
	"os"
)

// syncFS says that there is no way to sync a whole file system here: the server then syncs every
// message itself, which is slower.
func syncFS(*os.File) error { return errors.ErrUnsupported }

// freeBytes does not know, below 0, and so leaves the choice of a limit to the server.
func freeBytes(string) (int64, error) { return -1, nil }
