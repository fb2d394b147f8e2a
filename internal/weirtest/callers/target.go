package callers

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"

	"weir/internal/weirtest/history"
)

// Tenant is whose actions a crowd's are.
const Tenant = "default"

// Target is the upstream of a crowd's calls. It writes each request down before it answers.
type Target struct {
	*httptest.Server

	mu    sync.Mutex
	hits  []history.Hit
	held  string        // names that hold this are not answered, "" none
	first bool          // nor is the first request of each name
	free  chan struct{} // closed when they are
	heard chan string   // the names that are held, as they come
}

// NewTarget starts one that answers at once.
func NewTarget() *Target {
	t := &Target{free: make(chan struct{}), heard: make(chan string, 4096)}
	t.Server = httptest.NewServer(t)
	return t
}

// Hold leaves requests unanswered whose name has this part, until Release.
func (t *Target) Hold(part string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held, t.free = part, make(chan struct{})
}

// HoldFirst never answers the first request of each name.
func (t *Target) HoldFirst() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.first = true
}

// Release answers what is held.
func (t *Target) Release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held != "" {
		t.held = ""
		close(t.free)
	}
}

// Heard has the names of requests that are held, as they come in.
func (t *Target) Heard() <-chan string { return t.heard }

// Hits are the requests so far whose names begin with a prefix.
func (t *Target) Hits(prefix string) []history.Hit {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(t.hits), func(h history.Hit) bool { return !strings.HasPrefix(h.Mark, prefix) })
}

// ServeHTTP is one request. Its name is the last part of its path.
func (t *Target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := history.Hit{Tenant: Tenant, Mark: path.Base(r.URL.Path), Method: r.Method, Key: r.Header.Get("Idempotency-Key")}
	sum := sha256.New()
	_, err := io.Copy(sum, r.Body)
	h.Sum, h.Whole = hex.EncodeToString(sum.Sum(nil)), err == nil
	answer := []byte(`{"heard":"` + h.Mark + `"}`)
	t.mu.Lock()
	first := t.first && !slices.ContainsFunc(t.hits, func(seen history.Hit) bool { return seen.Mark == h.Mark })
	if h.Whole && !first { // whether it comes to answer it or not: it has done what was asked
		h.Status, h.Digest = http.StatusOK, digest(answer)
	}
	t.hits = append(t.hits, h)
	held, free := first || t.held != "" && strings.Contains(h.Mark, t.held), t.free
	t.mu.Unlock()
	if !h.Whole {
		panic(http.ErrAbortHandler)
	}
	if held {
		select {
		case t.heard <- h.Mark:
		default: // nobody counts so many
		}
		select {
		case <-free:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
