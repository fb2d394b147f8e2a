//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package git

import "os"

// tryLock cannot lock here: what runs in another process is not noticed.
func tryLock(*os.File, lockKind) (held bool, err error) { return true, nil }
