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

// server is a repository behind smart HTTP, as the door will have it.
type server struct {
	*httptest.Server
	git   *Git
	view  View
	force bool
	fails chan error // of git, where it has room
}

func serve(t *testing.T, g *Git, with ...func(*server)) *server {
	t.Helper()
	s := &server{git: g, view: View{All: true}, fails: make(chan error, 64)}
	for _, f := range with {
		f(s)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{repo}/info/refs", s.refs)
	mux.HandleFunc("POST /{repo}/git-upload-pack", s.fetch)
	mux.HandleFunc("POST /{repo}/git-receive-pack", s.push)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func showing(refs ...string) func(*server) {
	return func(s *server) { s.view = View{Refs: refs} }
}

func protocolOf(r *http.Request) int {
	if r.Header.Get("Git-Protocol") == "version=2" {
		return 2
	}
	return 0
}

// plainBody is a request's body as the client meant it.
func plainBody(r *http.Request) (io.Reader, error) {
	if r.Header.Get("Content-Encoding") == "gzip" {
		return gzip.NewReader(r.Body)
	}
	return r.Body, nil
}

func (s *server) end(w http.ResponseWriter, err error) {
	if err != nil {
		select {
		case s.fails <- err:
		default:
		}
		if w, ok := w.(*noting); ok && w.wrote {
			return // git has told the client
		}
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// noting notes whether something was written.
type noting struct {
	http.ResponseWriter
	wrote bool
}

func (n *noting) Write(b []byte) (int, error) { n.wrote = true; return n.ResponseWriter.Write(b) }

func (s *server) refs(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("service")
	w.Header().Set("Content-Type", "application/x-"+name+"-advertisement")
	s.end(w, s.git.Advertise(r.Context(), r.PathValue("repo"), name, protocolOf(r), s.view, w))
}

func (s *server) fetch(w http.ResponseWriter, r *http.Request) {
	w = &noting{ResponseWriter: w}
	body, err := plainBody(r)
	if err == nil {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		in, _ := io.ReadAll(body)
		err = upload(r.Context(), s.git, r.PathValue("repo"), protocolOf(r), s.view, in, w)
	}
	s.end(w, err)
}

// upload has git answer a fetch.
func upload(ctx context.Context, g *Git, id string, protocol int, v View, in []byte, w io.Writer) error {
	f, err := gitwire.ParseFetch(in, protocol == 2)
	if err != nil {
		return err
	}
	return g.UploadPack(ctx, id, f, v, w)
}

func (s *server) push(w http.ResponseWriter, r *http.Request) {
	body, err := plainBody(r)
	if err != nil {
		s.end(w, err)
		return
	}
	commands, err := gitwire.ReadCommands(body)
	if err != nil || len(commands.List) == 0 {
		s.end(w, err)
		return
	}
	pack, err := io.ReadAll(body)
	if err != nil {
		s.end(w, err)
		return
	}
	var progress []byte
	rep, err := s.git.ReceivePack(r.Context(), r.PathValue("repo"), Push{
		Command: commands.List[0], Capabilities: commands.Capabilities, Pack: bytes.NewReader(pack), Force: s.force,
		Progress: func(b []byte) { progress = gitwire.AppendProgress(progress, b) },
	})
	if err != nil {
		s.end(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
	_, _ = w.Write(progress)
	_, _ = w.Write(gitwire.AppendReport(nil, rep, commands.Has(gitwire.CapSideBand)))
}

// client runs the real git as a person would, and returns all that it says.
func client(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	return clientEnv(t, dir, nil, args...)
}

func clientEnv(t *testing.T, dir string, env []string, args ...string) (string, error) {
	t.Helper()
	r := gitkit.Run(t.Context(), dir, gitkit.Env(env...), nil, args...)
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

// begin makes the repository r1 with a task's branch, and returns where it began.
func begin(t *testing.T, g *Git, branch string) string {
	t.Helper()
	const id = "r1"
	head, err := g.Create(t.Context(), id, "main")
	require.NoError(t, err)
	oid, err := g.Branch(t.Context(), id, branch, "main", "task-"+branch)
	require.NoError(t, err)
	require.Equal(t, head, oid)
	return oid
}

// clone clones a repository of a server into a directory of the test's own.
func clone(t *testing.T, s *server, id string, args ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "c")
	gitkit.Git(t, "/", append(append([]string{"clone", "-q"}, args...), s.URL+"/"+id, dir)...)
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
	require.NoError(t, filepath.WalkDir(string(r), func(path string, _ os.DirEntry, err error) error {
		name := filepath.Base(path)
		if strings.HasSuffix(name, ".lock") || strings.Contains(name, "tmp") || strings.Contains(name, "incoming") {
			left = append(left, path)
		}
		return err
	}))
	require.Empty(t, left)
	out, err := client(t, string(r), "fsck", "--strict", "--no-dangling")
	require.NoError(t, err, out)
}
