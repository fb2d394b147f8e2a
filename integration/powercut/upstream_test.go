//go:build nightly

package powercut_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"weir/internal/weirtest/history"
)

// target is an upstream that writes each request down before it answers, and answers no
// two alike.
type target struct {
	*httptest.Server

	mu   sync.Mutex
	hits []history.Hit
}

func newTarget() *target {
	t := &target{}
	t.Server = httptest.NewServer(http.HandlerFunc(t.serve))
	return t
}

func (t *target) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	t.mu.Lock()
	answer := fmt.Sprintf(`{"hit":%d}`, len(t.hits)+1)
	t.hits = append(t.hits, history.Hit{
		Tenant: tenant, Mark: strings.TrimPrefix(r.URL.Path, "/"), Method: r.Method, Key: r.Header.Get("Idempotency-Key"),
		Sum: digest(body), Whole: err == nil, Status: http.StatusOK, Digest: digest([]byte(answer)),
	})
	t.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, answer)
}

// ledger is what came so far.
func (t *target) ledger() []history.Hit {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]history.Hit(nil), t.hits...)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
