package git

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// syncPath brings a file's bytes, or a directory's entries, to the disk.
func syncPath(path string) error {
	f, err := os.Open(path) //nolint:gosec // a path of this package's own making
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// syncRef makes an update of a ref outlive a power cut. Git syncs the files that it
// writes, but never the directories that it renames them into.
func (r repository) syncRef(ref string) error {
	list := []string{filepath.Join(string(r), "objects", "pack"), filepath.Join(string(r), "objects")}
	file := filepath.Join(string(r), filepath.FromSlash(ref))
	if _, err := os.Stat(file); err == nil { //nolint:gosec // a ref that git has taken
		list = append(list, file)
	}
	for dir := filepath.Dir(file); strings.HasPrefix(dir, string(r)); dir = filepath.Dir(dir) {
		list = append(list, dir)
	}
	for _, path := range list {
		// A directory of refs may have gone when they were packed, which the ones above it show.
		if err := syncPath(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// syncTree makes everything below a directory outlive a power cut.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncPath(path)
	})
}

// size is what a repository has on disk. What goes away meanwhile does not count.
func (r repository) size() (int64, error) {
	var n int64
	//nolint:gosec // of this package's own making
	err := filepath.WalkDir(string(r), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = e.Info(); err == nil {
				n += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return n, err
}
