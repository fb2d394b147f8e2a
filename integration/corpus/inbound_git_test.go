//go:build e2e

package corpus_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/gitwire"
	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// What one row of git may take: of this process's memory, of that of any child, and of disk.
const (
	mostHeap  = 128 << 20
	mostChild = 512 << 20
	mostDisk  = 1 << 20
)

// git sends a row of git, once for each body that it stands for. After each, no child and no
// half of anything stays, and the repositories are the same unless the row says that its branch
// moved.
func (c *call) git() {
	own := c.own()
	root := filepath.Join(c.g.dir, "git")
	c.fill(c.Assert + c.head(0)) // makes what the row names
	bodies := c.bodies()
	before := c.store(root)
	peak := watch(peakBelow)
	for _, body := range bodies {
		c.began = taken()
		h := c.push(body)
		c.check(h)
		if h.status == http.StatusOK && c.Code != "" {
			c.checkRefusedPush(h)
		}
		if h.status == http.StatusOK && c.asserts(errPacket) {
			assert.Contains(c.t, h.body, "ERR ")
		}
		assert.Less(c.t, taken()-c.began, int64(mostHeap), "bytes taken from the heap, kept or not")
		var after store
		poll.Until(c.t, func() bool {
			after = c.store(root)
			return len(children())+len(after.halves) == 0
		}, "children or halves stay")
		if c.asserts("ref moved") {
			assert.Equal(c.t, body.tip, c.view(c.g.tasks, own.ID).Head)
			before = after
			continue
		}
		assert.Empty(c.t, before.changed(after), "the repositories")
		if strings.Contains(h.body, "unpack ok") {
			before = after // git keeps objects that are fine, also if it refuses the update
		} else if body.tip != "" && body.tip != own.base && body.tip != gitkit.Zero {
			assert.False(c.t, c.has(root, body.tip), "what was refused is in a repository")
			assert.Less(c.t, after.size, before.size+mostDisk, "the disk")
		}
	}
	assert.Less(c.t, peak(), int64(mostChild), "the memory of a child")
}

// push sends one body, or as much of it as the row lets out.
func (c *call) push(body gitBody) answer {
	if c.Method == methodRaw {
		return c.send(c.fill(c.Raw))
	}
	head := c.head(body.size)
	all := io.MultiReader(strings.NewReader(head), body.data)
	if c.Headers["Transfer-Encoding"] != nil {
		all = io.MultiReader(strings.NewReader(head), chunked(body.data))
	}
	if c.Disconnect == 0 {
		return c.g.send(c.t, all, c.Method)
	}
	conn := dial(c.t, c.g.url)
	_, err := io.CopyN(conn, all, int64(len(head))+c.Disconnect)
	require.NoError(c.t, err)
	require.NoError(c.t, conn.Close())
	return answer{closed: true}
}

func chunked(data io.Reader) io.Reader {
	r, w := io.Pipe()
	go func() {
		chunks := httputil.NewChunkedWriter(w)
		_, err := io.Copy(chunks, data)
		_ = w.CloseWithError(errors.Join(err, chunks.Close(), func() error { _, err := io.WriteString(w, "\r\n"); return err }()))
	}()
	return r
}

// checkRefusedPush: the client of a push that is refused in an answer of 200 reads the row's
// code, and the evidence has it.
func (c *call) checkRefusedPush(h answer) {
	_, err := gitwire.Demux(strings.NewReader(h.body), "", true, nil)
	text := h.body
	if said, ok := errors.AsType[*gitwire.RemoteError](err); ok { // of a client that reads no report
		text = said.Text
	} else {
		assert.Contains(c.t, text, "unpack ok\n")
		assert.Contains(c.t, text, "ng ")
	}
	assert.Contains(c.t, text, c.Code, "%q", cut(h.body))
	for _, result := range c.results() {
		assert.Equal(c.t, c.Code, result, "the record of the push")
	}
}

// results are those of the pushes to the row's task, once there is one.
func (c *call) results() (all []string) {
	poll.Until(c.t, func() bool {
		all = nil
		for _, a := range audits[schemas.PushAudit](c, schemas.EvidencePush) {
			all = append(all, a.Result)
		}
		return len(all) > 0
	}, "no record of the push")
	return all
}

// checkNoFilter: a filter is not obeyed.
func checkNoFilter(c *call, h answer, _ string) {
	assert.NotContains(c.t, h.body, "PACK")
	if h.status == http.StatusOK {
		assert.Contains(c.t, h.body, "ERR ")
	}
}

// checkUnpackError: git refuses the objects, and the update.
func checkUnpackError(c *call, h answer, _ string) {
	assert.Regexp(c.t, `unpack [^\n]*[^k\n]\n`, h.body)
	assert.NotContains(c.t, h.body, "unpack ok")
	assert.Contains(c.t, h.body, "ng "+schemas.RefOf(c.own().Branch))
}

// store is what a node has on its disk for git.
type store struct {
	state  map[string]string // of the repositories, all but their objects: refs, HEAD, configuration
	size   int64             // of all files
	halves []string          // left by processes that were cut short: locks, quarantines, spooled packs
}

func (c *call) store(root string) store {
	s := store{state: map[string]string{}}
	require.NoError(c.t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return passing(err)
		}
		name, place := d.Name(), strings.TrimPrefix(filepath.Dir(path), root)
		if place == "/tmp" || place == "/pushes" || strings.Contains(name, "incoming-") || strings.Contains(name, "tmp_") || strings.Contains(name, ".lock") {
			s.halves = append(s.halves, path)
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			return passing(err)
		}
		s.size += info.Size()
		if strings.HasPrefix(place, "/repos/") && !strings.Contains(place, "/objects") {
			data, err := os.ReadFile(path) // a link is followed, and its mode tells
			s.state[path] = info.Mode().String() + string(data)
			return passing(err)
		}
		return nil
	}))
	return s
}

// changed are the paths that differ.
func (s store) changed(after store) (paths []string) {
	for path := range s.state {
		if _, ok := after.state[path]; !ok {
			paths = append(paths, path)
		}
	}
	for path, content := range after.state {
		if old, ok := s.state[path]; !ok || old != content {
			paths = append(paths, path)
		}
	}
	return paths
}

// passing forgives a file that is gone by the time it is read.
func passing(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

// has reports whether any repository has an object.
func (c *call) has(root, oid string) bool {
	repos, err := filepath.Glob(filepath.Join(root, "repos", "*.git"))
	require.NoError(c.t, err)
	require.NotEmpty(c.t, repos)
	for _, dir := range repos {
		if gitkit.Run(c.t.Context(), dir, gitkit.Env(), nil, "cat-file", "-e", oid).Code == 0 {
			return true
		}
	}
	return false
}

// children are the processes below this one. Without /proc there are none.
func children() []string { return childrenOf(strconv.Itoa(os.Getpid())) }

func childrenOf(pid string) (all []string) {
	lists, _ := filepath.Glob("/proc/" + pid + "/task/*/children")
	for _, list := range lists {
		text, _ := os.ReadFile(list) // any of it may be gone
		all = append(all, strings.Fields(string(text))...)
	}
	return all
}

// peakBelow is the most resident memory, in bytes, that a git below this process has had.
func peakBelow() (peak int64) {
	for next := children(); len(next) > 0; next = next[1:] {
		status, _ := os.ReadFile("/proc/" + next[0] + "/status")
		if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok && strings.HasPrefix(string(status), "Name:\tgit") {
			var kib int64
			_, _ = fmt.Sscan(rest, &kib)
			peak = max(peak, kib<<10)
		}
		next = append(next, childrenOf(next[0])...)
	}
	return peak
}
