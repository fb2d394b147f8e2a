//go:build e2e

package canary_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/gitkit"
)

// gitUpstream is a git server elsewhere, that wants a secret and has much to say.
type gitUpstream struct {
	*httptest.Server
	mirror  string
	release chan struct{} // lets go of what is held
}

// apart has the directories of a test lie apart from where the program's own would land.
type apart struct{ testing.TB }

func (a apart) TempDir() string { return directory(a.TB) }

func newGitUpstream(t *testing.T, g *garden) *gitUpstream {
	t.Helper()
	backend := gitkit.NewBackend(apart{t})
	u := &gitUpstream{release: make(chan struct{})}
	_, u.mirror = backend.Add(t, "mirror.git", "")
	first := grown(g, "imported", "")
	gitkit.GitIn(t, u.mirror, first.pack, "unpack-objects", "-q")
	gitkit.Git(t, u.mirror, "update-ref", "refs/heads/main", first.tip)
	for hook, text := range map[string]string{
		"post-receive": "echo '" + g.plant("said by the git server") + "' >&2\n",
		// The branch of a task is made by a push as well: that one is let in.
		"update": "case \"$1 $2\" in */refused\\ 0000*) ;; */refused\\ *) echo '" + g.plant("why the git server refuses") + "' >&2; exit 1;; esac\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(u.mirror, "hooks", hook), []byte("#!/bin/sh\n"+text), 0o700))
	}
	secret, odd := "Bearer "+g.secret("of a git server"), map[string]func(w http.ResponseWriter){
		"/broken.git": func(w http.ResponseWriter) {
			http.Error(w, g.plant("broken git server"), http.StatusInternalServerError)
		},
		"/text.git": func(w http.ResponseWriter) { fmt.Fprint(w, g.plant("git server that is none")) },
		"/moved.git": func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://git.example/"+g.plant("where the git server is now"))
			w.WriteHeader(http.StatusFound)
		},
		"/closed.git": func(w http.ResponseWriter) {
			w.Header().Set("WWW-Authenticate", `Basic realm="`+g.plant("realm of the git server")+`"`)
			w.WriteHeader(http.StatusUnauthorized)
		},
		"/err.git": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			fmt.Fprint(w, gitkit.Pkt("# service=git-upload-pack\n")+"0000"+gitkit.Pkt("ERR "+g.plant("error of the git server")+"\n"))
		},
	}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != secret {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		r.Header.Del("Authorization")
		if rest, ok := strings.CutPrefix(r.URL.Path, "/held.git"); ok {
			<-u.release
			r.URL.Path = "/mirror.git" + rest
		}
		for prefix, answer := range odd {
			if strings.HasPrefix(r.URL.Path, prefix) {
				answer(w)
				return
			}
		}
		backend.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(u.Close)
	return u
}

// has proves that a commit of a class came to the git server.
func (u *gitUpstream) has(tb testing.TB, g *garden, class string) {
	tb.Helper()
	have := all(tb, u.mirror)
	for _, part := range texts() {
		assert.Contains(tb, have, g.text(tb, class+" "+part))
	}
}
