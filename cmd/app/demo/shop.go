package demo

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// shop is the local upstream of the tour. It counts each request before it answers, so that the tour can compare
// the reports of Weir with what arrived.
type shop struct {
	server *http.Server
	url    string

	mu   sync.Mutex
	seen map[string]int // requests by method and path
}

// openShop starts the shop on a loopback port.
func openShop(ctx context.Context) (*shop, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &shop{url: "http://" + listener.Addr().String(), seen: map[string]int{}}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = s.server.Serve(listener) }() // ends with close
	return s, nil
}

func (s *shop) close() { _ = s.server.Close() }

// hits counts the requests that arrived for a path.
func (s *shop) hits(method, path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[method+" "+path]
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	what := r.Method + " " + r.URL.Path
	s.seen[what]++
	first := s.seen[what] == 1
	s.mu.Unlock()
	status, doc := http.StatusOK, `{"item": "lamp", "cents": 1999}`
	switch what {
	case "POST /v1/orders":
		status, doc = http.StatusCreated, `{"order": 4711, "state": "taken"}`
	case "GET /v1/stock":
		if first {
			panic(http.ErrAbortHandler) // the connection drops without an answer, as networks do
		}
		doc = `{"item": "lamp", "left": 12}`
	case "GET /v1/price":
	default:
		status = http.StatusNotFound
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, doc)
}
