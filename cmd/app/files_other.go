//go:build !(linux || darwin || netbsd || openbsd)

package app

// openFiles is not known here.
func openFiles() (uint64, bool) { return 0, false }
