//go:build e2e

package crash_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"

	"weir/internal/weirtest/history"
)

const tenant = "default"

// upstream writes each request down before it answers.
type upstream struct {
	*httptest.Server
	holds bool // the first request of a name is not answered

	mu      sync.Mutex
	hits    []history.Hit
	seen    map[string]bool
	arrived chan string // the names that are held
}

func newUpstream(holds bool) *upstream {
	u := &upstream{holds: holds, seen: map[string]bool{}, arrived: make(chan string, 64)}
	u.Server = httptest.NewServer(u)
	return u
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := history.Hit{Tenant: tenant, Mark: path.Base(r.URL.Path), Method: r.Method, Key: r.Header.Get("Idempotency-Key")}
	sum := sha256.New()
	_, err := io.Copy(sum, r.Body)
	h.Sum, h.Whole = hex.EncodeToString(sum.Sum(nil)), err == nil
	answer := []byte(`{"heard":"` + h.Mark + `"}`)

	u.mu.Lock()
	held := u.holds && !u.seen[h.Mark]
	u.seen[h.Mark] = true
	if h.Whole && !held {
		h.Status, h.Digest = http.StatusOK, digest(answer)
	}
	u.hits = append(u.hits, h)
	u.mu.Unlock()
	switch {
	case !h.Whole:
		panic(http.ErrAbortHandler)
	case held:
		u.arrived <- h.Mark
		<-r.Context().Done()
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
