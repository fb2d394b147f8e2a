package git

import (
	"bufio"
	"errors"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// under reports whether a repository has refs below a name, where then no ref of that name can be.
func (r repository) under(ref string) (bool, error) {
	found := errors.New("found")
	err := filepath.WalkDir(filepath.Join(string(r), filepath.FromSlash(ref)), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			return found
		}
		return err
	})
	switch {
	case errors.Is(err, found):
		return true, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	f, err := os.Open(filepath.Join(string(r), "packed-refs"))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return false, err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if _, name, ok := strings.Cut(lines.Text(), " "); ok && strings.HasPrefix(name, ref+"/") {
			return true, nil
		}
	}
	return false, lines.Err()
}

// stripes are locks, one for some of the repositories.
type stripes [64]sync.Mutex

func (s *stripes) of(r repository) *sync.Mutex {
	h := fnv.New32a()
	_, _ = h.Write([]byte(r))
	return &s[h.Sum32()%uint32(len(s))]
}
