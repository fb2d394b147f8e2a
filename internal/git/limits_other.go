//go:build !linux

package git

type bounds struct {
	memory, file, seconds int64
}

// limit has no way to limit another process here.
func limit(int, bounds) error { return nil }
