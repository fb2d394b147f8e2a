package demo

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// shop is the local upstream of the tour. It writes each request down before it
// answers, so that the tour can hold what Weir says against what arrived.
type shop struct {
	server *http.Server
	url    string

	mu     sync.Mutex
	ledger []arrival
}

// arrival is one request as the shop saw it.
type arrival struct {
	Method string
	Path   string
	Key    string // Idempotency-Key
	Body   string
}

// openShop starts the shop on a loopback port.
func openShop(ctx context.Context) (*shop, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &shop{url: "http://" + listener.Addr().String()}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/orders", s.order)
	mux.HandleFunc("GET /v1/stock", s.stock)
	mux.HandleFunc("GET /v1/price", s.price)
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = s.server.Serve(listener) }() // ends with close
	return s, nil
}

func (s *shop) close() { _ = s.server.Close() }

// note writes a request down and says how many like it came before.
func (s *shop) note(r *http.Request) (before int) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<16))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.ledger {
		if a.Method == r.Method && a.Path == r.URL.Path {
			before++
		}
	}
	s.ledger = append(s.ledger, arrival{Method: r.Method, Path: r.URL.Path, Key: r.Header.Get("Idempotency-Key"), Body: string(body)})
	return before
}

// hits counts the requests that arrived for a path.
func (s *shop) hits(method, path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, a := range s.ledger {
		if a.Method == method && a.Path == path {
			n++
		}
	}
	return n
}

func (s *shop) order(w http.ResponseWriter, r *http.Request) {
	s.note(r)
	reply(w, http.StatusCreated, `{"order": 4711, "state": "taken"}`)
}

// stock drops the first connection without an answer, as networks do.
func (s *shop) stock(w http.ResponseWriter, r *http.Request) {
	if s.note(r) == 0 {
		if hijacker, ok := w.(http.Hijacker); ok {
			if conn, _, err := hijacker.Hijack(); err == nil {
				_ = conn.Close()
				return
			}
		}
	}
	reply(w, http.StatusOK, `{"item": "lamp", "left": 12}`)
}

func (s *shop) price(w http.ResponseWriter, r *http.Request) {
	s.note(r)
	reply(w, http.StatusOK, `{"item": "lamp", "cents": 1999}`)
}

func reply(w http.ResponseWriter, status int, doc string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, doc)
}
