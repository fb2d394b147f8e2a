// Package llm is a double of a model's provider that speaks the chat completions
// protocol: correctly, or with one fault. It is an ordinary HTTP server and keeps a
// ledger of what it was asked.
//
// By default it is correct: POST /v1/chat/completions answers any model with a few
// words, as a stream where the request asks for one, with usage where that asks for
// it too. What it does with a request is, in this order: the next Act of the Script;
// the Act of the model asked for; where the last part of the model's name is the name
// of a Fault ("any/crlf"), the Default with that fault; the Default.
//
//	s := llm.New(t, llm.Config{Key: "sk-test"})
//	hold := make(chan struct{})
//	s := llm.New(t, llm.Config{Script: []llm.Act{
//		{Fault: llm.Status(429)},                          // the first request
//		{Texts: []string{"a", "b"}, Hold: hold},           // the second and all that follow
//	}})
//	r := s.WaitRequest(2)                                      // blocks until the second has come
//	close(hold)                                                // lets it end
//	<-r.Closed()                                               // over, for whatever reason
//	r.Cut()                                                    // whether the caller left before the end
//
// An Act waits at its channels, so that a test waits on signals alone; Act.Answer
// writes whatever a test wants to the wire. Faults lists every fault.
package llm

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Config says what a provider is like. Its zero value is correct.
type Config struct {
	// Key is asked for as a bearer token; empty: nobody is asked.
	Key string
	// Script gives the n-th request for a completion the n-th act, and the last one to
	// all that follow. A refusal takes no step of it.
	Script []Act
	// Models are acts by the names of models as they are sent.
	Models map[string]Act
	// Default is the act of every other model.
	Default Act
	// Listener is where it listens; nil: a port of loopback. It is closed with the server.
	Listener net.Listener
}

// Prefix stands before the routes of a provider.
const Prefix = "/v1"

// Server is a running double.
type Server struct {
	fatal  func(format string, args ...any)
	cfg    Config
	server *http.Server
	addr   string
	stop   context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	ledger  []*Request
	asked   int // for a completion, and not refused
	running int
}

// New starts a provider that stops with its test.
func New(tb testing.TB, cfg Config) *Server {
	tb.Helper()
	s, err := Start(cfg)
	if err != nil {
		tb.Fatalf("llm: %v", err)
	}
	s.fatal = func(format string, args ...any) {
		tb.Helper()
		tb.Fatalf(format, args...)
	}
	tb.Cleanup(s.Close)
	return s
}

// Start starts a provider without a test, such as for a benchmark's own process. A
// wait that takes too long panics.
func Start(cfg Config) (*Server, error) {
	if cfg.Listener == nil {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		cfg.Listener = l
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{cfg: cfg, addr: cfg.Listener.Addr().String(), stop: cancel, fatal: abort}
	s.changed = sync.NewCond(&s.mu)
	s.server = &http.Server{
		Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	s.wg.Go(func() { _ = s.server.Serve(cfg.Listener) })
	return s, nil
}

// Close cuts every connection and waits for what was under way. It may be called
// twice; later dials are refused.
func (s *Server) Close() {
	s.stop()
	_ = s.server.Close()
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.running > 0 {
		s.changed.Wait()
	}
}

// URL is the base that a model's routes are joined to, without a slash at the end.
func (s *Server) URL() string { return "http://" + s.addr + Prefix }

// Addr is its host and port.
func (s *Server) Addr() string { return s.addr }
