//go:build e2e

package corpus_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/gitkit"
)

// gitStore is what lies on the disk of a node that hosts repositories.
type gitStore struct {
	t    *testing.T
	root string
}

func (g *gateway) gitStore(t *testing.T) gitStore {
	t.Helper()
	return gitStore{t, filepath.Join(g.dir, "git")}
}

// state is all of the repositories but their objects: refs, HEAD, configuration.
func (s gitStore) state() map[string]string {
	s.t.Helper()
	all := map[string]string{}
	s.walk(filepath.Join(s.root, "repos"), func(path string, d fs.DirEntry) error {
		if d.IsDir() && d.Name() == "objects" {
			return filepath.SkipDir
		}
		if d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			all[strings.TrimPrefix(path, s.root)] = string(data)
			return passing(err)
		}
		if !d.IsDir() {
			all[strings.TrimPrefix(path, s.root)] = "is " + d.Type().String()
		}
		return nil
	})
	require.NotEmpty(s.t, all)
	return all
}

// size is what all of it has on disk.
func (s gitStore) size() (sum int64) {
	s.walk(s.root, func(_ string, d fs.DirEntry) error {
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return passing(err)
	})
	return sum
}

// halves are what processes that were cut short leave: locks, quarantines, packs
// that are not whole.
func (s gitStore) halves() (left []string) {
	s.walk(s.root, func(path string, d fs.DirEntry) error {
		for _, mark := range []string{"incoming-", "tmp_", ".lock"} {
			if strings.Contains(d.Name(), mark) {
				left = append(left, path)
			}
		}
		if dir := filepath.Base(filepath.Dir(path)); filepath.Dir(filepath.Dir(path)) == s.root && (dir == "tmp" || dir == "pushes") {
			left = append(left, path)
		}
		return nil
	})
	return left
}

func (s gitStore) walk(root string, each func(path string, d fs.DirEntry) error) {
	require.NoError(s.t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return passing(err)
		}
		return each(path, d)
	}))
}

// passing forgives a file that is gone by the time it is looked at.
func passing(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

// has reports whether any repository has an object.
func (s gitStore) has(t *testing.T, oid string) bool {
	t.Helper()
	repos, err := filepath.Glob(filepath.Join(s.root, "repos", "*.git"))
	require.NoError(t, err)
	require.NotEmpty(t, repos)
	for _, dir := range repos {
		if gitkit.Run(t.Context(), dir, gitkit.Env(), nil, "cat-file", "-e", oid).Code == 0 {
			return true
		}
	}
	return false
}

// quiet waits until no child is left, nor half of anything.
func (s gitStore) quiet(t *testing.T) {
	t.Helper()
	var left []string
	assert.Eventually(t, func() bool {
		left = append(children(t), s.halves()...)
		return len(left) == 0
	}, 15*time.Second, 10*time.Millisecond, "children and halves stay")
	assert.Empty(t, left)
}

// children are those of this process that are git, or that nobody has asked how they
// ended. Where there is no /proc, there are none.
func children(t *testing.T) (all []string) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", os.Getpid()))
	require.NoError(t, err)
	for _, list := range lists {
		text, _ := os.ReadFile(list) // the thread may be gone
		for pid := range strings.FieldsSeq(string(text)) {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			if err == nil {
				all = append(all, cut(string(stat)))
			}
		}
	}
	return all
}

// watchChildren looks again and again at how much memory each child has had. What it
// returns ends that, and is the most.
func watchChildren() (end func() int64) {
	stop, most := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		var peak int64
		for {
			peak = max(peak, peakBelow(os.Getpid()))
			select {
			case <-tick.C:
			case <-stop:
				most <- peak
				return
			}
		}
	}()
	return func() int64 {
		close(stop)
		return <-most
	}
}

// peakBelow is the most resident memory, in bytes, that a process below this one has had.
func peakBelow(pid int) (peak int64) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list) // any of it may be gone
		for child := range strings.FieldsSeq(string(text)) {
			status, _ := os.ReadFile("/proc/" + child + "/status")
			if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok && strings.HasPrefix(string(status), "Name:\tgit") {
				var kib int64
				_, _ = fmt.Sscan(rest, &kib)
				peak = max(peak, kib<<10)
			}
			if id, err := strconv.Atoi(child); err == nil {
				peak = max(peak, peakBelow(id))
			}
		}
	}
	return peak
}
