package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"weir/internal/gitwire"
	"weir/schemas"
)

// repository is the directory of one that is there.
type repository string

func (g *Git) reposDir() string { return filepath.Join(g.cfg.Dir, "repos") }

func (g *Git) tmpDir() string { return filepath.Join(g.cfg.Dir, "tmp") }

// repoPath is where a repository is or would be. An id that is none has no place.
func (g *Git) repoPath(id string) (string, error) {
	if !schemas.ValidID(id) {
		return "", ErrNoRepo
	}
	return filepath.Join(g.reposDir(), schemas.EscapeToken(id)+".git"), nil
}

func (g *Git) repo(id string) (repository, error) {
	if g.none != nil {
		return "", g.none
	}
	path, err := g.repoPath(id)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", ErrNoRepo
	} else if err != nil {
		return "", err
	}
	return repository(path), nil
}

// Here returns ErrNoRepo where a repository is not on this node.
func (g *Git) Here(id string) error {
	if g.asked != nil {
		return g.asked
	}
	_, err := g.repo(id)
	return err
}

// own is the directory of what Weir itself keeps with a repository. Git does not look at it.
func (r repository) own(name ...string) string {
	return filepath.Join(append([]string{string(r), "weir"}, name...)...)
}

// head is the ref that HEAD stands for.
func (r repository) head() (string, error) {
	text, err := os.ReadFile(filepath.Join(string(r), "HEAD"))
	if err != nil {
		return "", err
	}
	ref, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "ref: ")
	if !ok {
		return "", errors.New("the repository's HEAD is no branch")
	}
	return ref, nil
}

func (r repository) setHead(ref string) error {
	return os.WriteFile(filepath.Join(string(r), "HEAD"), []byte("ref: "+ref+"\n"), 0o600)
}

func validBranch(branch string) bool { return gitwire.ValidRef(schemas.RefOf(branch)) }

// Head is the object id of a branch, or ErrNoRef.
func (g *Git) Head(ctx context.Context, id, branch string) (oid string, err error) {
	s, err := g.lookUp(ctx, id)
	if err != nil {
		return "", err
	}
	defer s.end()
	if !validBranch(branch) {
		return "", ErrNoRef
	}
	return s.tip(schemas.RefOf(branch))
}

// syncPath brings a file's bytes, or a directory's entries, to the disk.
func syncPath(path string) error {
	f, err := os.Open(path)
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
	if _, err := os.Stat(file); err == nil {
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

// size is what a repository has on disk. A file that is removed meanwhile does not count.
func (r repository) size() (int64, error) {
	var n int64
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
