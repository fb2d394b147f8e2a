package gitkit

import (
	"errors"
	"io"
	"net/http"
	"net/http/cgi" //nolint:gosec // the attack is of a Go from long ago
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Backend is a git server over HTTP as the world runs them: the real git, with
// repositories below a directory.
type Backend struct {
	*httptest.Server
	// Root has the repositories: Root/x.git is served at URL/x.git.
	Root string

	mu       sync.Mutex
	password string
	requests []string
	push     func(w http.ResponseWriter, r *http.Request, git http.Handler)
}

// NewBackend starts a server that ends with its test. Anybody may fetch and push.
func NewBackend(tb testing.TB) *Backend {
	tb.Helper()
	b := &Backend{Root: tb.TempDir()}
	where := strings.TrimSpace(Git(tb, b.Root, "--exec-path"))
	program := filepath.Join(where, "git-http-backend")
	if _, err := exec.LookPath(program); err != nil {
		tb.Fatal("git's http-backend is not there: ", err)
	}
	bodies := tb.TempDir()
	h := &cgi.Handler{
		Path: program, Dir: b.Root, InheritEnv: []string{"PATH"}, Stderr: io.Discard,
		Env: append(Env(), "GIT_PROJECT_ROOT="+b.Root, "GIT_HTTP_EXPORT_ALL=1"),
	}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		password, push := b.note(r)
		if _, got, _ := r.BasicAuth(); password != "" && got != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="upstream"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.ContentLength < 0 { // CGI has no word for that
			if err := spool(r, bodies); err != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			defer r.Body.Close()
		}
		if push != nil && strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
			push(w, r, h)
			return
		}
		h.ServeHTTP(w, r)
	}))
	tb.Cleanup(b.Close)
	return b
}

// spool reads a request's body into a file.
func spool(r *http.Request, dir string) error {
	f, err := os.CreateTemp(dir, "body")
	if err != nil {
		return err
	}
	n, err := io.Copy(f, r.Body)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.Body, r.ContentLength, r.TransferEncoding = f, n, nil
	return nil
}

func (b *Backend) note(r *http.Request) (password string, push func(http.ResponseWriter, *http.Request, http.Handler)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests = append(b.requests, r.Method+" "+r.URL.RequestURI())
	return b.password, b.push
}

// Answer has pushes answered in git's place, which is given along.
func (b *Backend) Answer(push func(w http.ResponseWriter, r *http.Request, git http.Handler)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.push = push
}

// Require has the server ask for a password, of any user.
func (b *Backend) Require(password string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.password = password
}

// Requests are those that came so far: their methods and targets.
func (b *Backend) Requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.requests...)
}

// Add makes a bare repository of another, and returns its URL and its directory. With
// an empty from it has nothing.
func (b *Backend) Add(tb testing.TB, name, from string) (url, dir string) {
	tb.Helper()
	dir = filepath.Join(b.Root, name)
	if from == "" {
		Git(tb, b.Root, "init", "-q", "--bare", "-b", "main", dir)
	} else {
		Git(tb, b.Root, "clone", "-q", "--bare", from, dir)
	}
	Git(tb, dir, "config", "http.receivepack", "true")
	return b.URL + "/" + name, dir
}
