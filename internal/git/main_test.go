//go:build linux

package git

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/gitwire"
	"weir/internal/weirtest/gitkit"
	"weir/schemas"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimEnv); dir != "" {
		victim(dir)
		return
	}
	if dir := os.Getenv(firstEnv); dir != "" {
		first(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

const zero = gitwire.Zero

// open opens a Git for a test, which ends it and looks that nothing is left of it.
func open(t *testing.T, cfg Config) *Git {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = filepath.Join(t.TempDir(), "git")
	}
	g, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		g.Close()
		left, err := os.ReadDir(g.tmpDir())
		require.NoError(t, err)
		require.Empty(t, left, "half-made repositories")
		require.Empty(t, childrenOf(g.cfg.Dir), "processes")
	})
	return g
}

// childrenOf are the processes, dead or alive, that work below a directory.
func childrenOf(dir string) []string {
	procs, _ := filepath.Glob("/proc/[0-9]*")
	var list []string
	for _, p := range procs {
		if cwd, err := os.Readlink(p + "/cwd"); err == nil && strings.HasPrefix(cwd, dir+"/") {
			list = append(list, p)
		}
	}
	return list
}

// serve has the real git fetch from a Git over HTTP, and returns the URL of its repositories.
func serve(t *testing.T, g *Git, v view) string {
	t.Helper()
	mux := http.NewServeMux()
	answer := func(do func(r *http.Request, protocol int, w io.Writer) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			protocol := 0
			if r.Header.Get("Git-Protocol") == "version=2" {
				protocol = 2
			}
			service := path.Base(r.URL.Path)
			if service == "refs" {
				w.Header().Set("Content-Type", gitwire.AdvertisementType(r.URL.Query().Get("service")))
			} else {
				w.Header().Set("Content-Type", gitwire.ResultType(service))
			}
			if err := do(r, protocol, w); err != nil { // it follows what git has said
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		}
	}
	mux.HandleFunc("GET /{repo}/info/refs", answer(func(r *http.Request, protocol int, w io.Writer) error {
		return g.advertise(r.Context(), r.PathValue("repo"), r.URL.Query().Get("service"), protocol, v, w)
	}))
	mux.HandleFunc("POST /{repo}/git-upload-pack", answer(func(r *http.Request, protocol int, w io.Writer) (err error) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			if body, err = gzip.NewReader(r.Body); err != nil {
				return err
			}
		}
		in, _ := io.ReadAll(body)
		return upload(r.Context(), g, r.PathValue("repo"), protocol, v, in, w)
	}))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// upload has git answer a fetch.
func upload(ctx context.Context, g *Git, id string, protocol int, v view, in []byte, w io.Writer) error {
	f, err := gitwire.ParseFetch(in, protocol == 2)
	if err != nil {
		return err
	}
	return g.uploadPack(ctx, id, f, v, w)
}

// client runs the real git as a person would, and returns all that it says.
func client(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	r := gitkit.Run(t.Context(), dir, gitkit.Env(), nil, args...)
	said := strings.TrimSpace(r.Out + r.Err)
	if r.Code != 0 {
		return said, errors.New(said)
	}
	return said, nil
}

// noise is text that nothing compresses, always the same.
func noise(size int) string {
	b := make([]byte, size)
	_, _ = noisy{}.Read(b)
	return string(b)
}

// push brings a commit with a file of the given text to the branch work, without a client.
func push(t *testing.T, g *Git, text string) (oid string) {
	t.Helper()
	from := head(t, g, "r1", "work")
	pack, oid := gitkit.GoodCommit(text, from)
	rep, err := g.ReceivePack(t.Context(), "r1", pushOf("work", from, oid, bytes.NewReader(pack)))
	require.NoError(t, err)
	require.Equal(t, gitwire.UnpackOK, rep.Unpack)
	return oid
}

// begin makes the repository r1 with the branch work of a task, and returns where it began.
func begin(t *testing.T, g *Git) string {
	t.Helper()
	head, err := g.Create(t.Context(), "r1", "main")
	require.NoError(t, err)
	oid, err := g.Branch(t.Context(), "r1", "work", "main", "task-work")
	require.NoError(t, err)
	require.Equal(t, head, oid)
	return oid
}

// filled is a repository with three commits of one file on its task's branch.
func filled(t *testing.T, g *Git) (commits []string) {
	t.Helper()
	begin(t, g)
	for _, text := range []string{"a", "b", "c"} {
		commits = append(commits, push(t, g, strings.Repeat(text, 5000)+"\n"))
	}
	return commits
}

// clone clones a repository of a server into a directory of the test's own.
func clone(t *testing.T, url, id string, args ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "c")
	gitkit.Git(t, "/", append(append([]string{"clone", "-q"}, args...), url+"/"+id, dir)...)
	return dir
}

func head(t *testing.T, g *Git, id, branch string) string {
	t.Helper()
	oid, err := g.Head(t.Context(), id, branch)
	require.NoError(t, err)
	return oid
}

func pushOf(branch, from, to string, pack io.Reader) Push {
	return Push{
		Pack:    pack,
		Command: gitwire.Command{Old: from, New: to, Ref: schemas.RefOf(branch)},
	}
}

// clean looks that a repository has no trace of what did not come to be.
func clean(t *testing.T, g *Git, id string) {
	t.Helper()
	r, err := g.repo(id)
	require.NoError(t, err)
	var left []string
	require.NoError(t, filepath.WalkDir(string(r), func(file string, _ os.DirEntry, err error) error {
		name := filepath.Base(file)
		if strings.HasSuffix(name, ".lock") || strings.Contains(name, "tmp") || strings.Contains(name, "incoming") {
			left = append(left, file)
		}
		return err
	}))
	require.Empty(t, left)
	out, err := client(t, string(r), "fsck", "--strict", "--no-dangling")
	require.NoError(t, err, out)
}
