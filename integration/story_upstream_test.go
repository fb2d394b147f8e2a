//go:build e2e

package integration_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// programs are the running programs by work directory: testscript gives its
// commands no place of their own.
var programs sync.Map

func contextOf(*testscript.TestScript) context.Context { return context.Background() }

// storyUpstream is what the stories call. It notes each request before it answers:
//
//	/ok…        200 {"ok":true}
//	/flaky…     closes the first connection, then as /ok
//	/drop…      closes every connection after it has read the request
//	/busy…      503 twice, then as /ok
//	/status/N   that status
//	/later      503, to be tried again in a minute
//	/text       200 with a text body
//	/echo       200 with the request's headers
//	/header     200 with the request's X-Story
//	/wait…      answers when somebody calls /open
type storyUpstream struct {
	*httptest.Server
	mu    sync.Mutex
	seen  []string
	count map[string]int
	gate  chan struct{}
}

func newStoryUpstream() *storyUpstream {
	u := &storyUpstream{count: map[string]int{}, gate: make(chan struct{})}
	u.Server = httptest.NewServer(u)
	return u
}

func (u *storyUpstream) shut() {
	u.open()
	u.Close()
}

func (u *storyUpstream) open() {
	u.mu.Lock()
	defer u.mu.Unlock()
	select {
	case <-u.gate:
	default:
		close(u.gate)
	}
}

func (u *storyUpstream) lines() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.seen)
}

func (u *storyUpstream) counts() map[string]int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.count)
}

func (u *storyUpstream) note(r *http.Request) int {
	body, _ := io.ReadAll(r.Body)
	u.mu.Lock()
	defer u.mu.Unlock()
	line := r.Method + " " + r.URL.RequestURI()
	u.count[r.Method+" "+r.URL.Path]++
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		line += " key=" + key
	}
	if len(body) > 0 {
		line += " body=" + string(body)
	}
	u.seen = append(u.seen, line)
	return u.count[r.Method+" "+r.URL.Path]
}

func (u *storyUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/open" {
		u.open()
		return
	}
	n := u.note(r)
	path := r.URL.Path
	switch {
	case strings.HasPrefix(path, "/drop"), strings.HasPrefix(path, "/flaky") && n == 1:
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.Close()
		}
		return
	case strings.HasPrefix(path, "/busy") && n <= 2:
		answer(w, http.StatusServiceUnavailable, "application/json", `{"busy":true}`)
		return
	case strings.HasPrefix(path, "/status/"):
		status, _ := strconv.Atoi(strings.TrimPrefix(path, "/status/"))
		answer(w, status, "application/json", `{"status":"as asked"}`)
		return
	case path == "/later":
		w.Header().Set("Retry-After", "60")
		answer(w, http.StatusServiceUnavailable, "application/json", `{}`)
		return
	case path == "/text":
		answer(w, http.StatusOK, "text/plain; charset=utf-8", "plain words")
		return
	case path == "/echo":
		answer(w, http.StatusOK, "application/json", fmt.Sprintf("%q", r.Header.Get("Authorization")))
		return
	case path == "/header":
		answer(w, http.StatusOK, "application/json", fmt.Sprintf("%q", r.Header.Get("X-Story")))
		return
	case strings.HasPrefix(path, "/wait"):
		select {
		case <-u.gate:
		case <-r.Context().Done():
			return
		}
	}
	answer(w, http.StatusOK, "application/json", `{"ok":true,"n":1.50}`)
}

func answer(w http.ResponseWriter, status int, contentType, body string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Set-Cookie", "session=AGWCANARY-cookie")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}
