// Package upstream is the other side of Weir's calls, for tests: a server over
// a plain listener that answers well, badly or not at all, and writes each
// request it received to a ledger before it answers. What the ledger counts is
// what really arrived, whatever the caller was told.
package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"sync"
	"testing"

	"weir/internal/weirtest/poll"
)

// Server listens on 127.0.0.1. It stops with its test and waits for all it started.
type Server struct {
	t        testing.TB
	listener net.Listener
	tls      *tls.Config
	stop     context.CancelFunc
	done     <-chan struct{} // closed when the server stops: what endless behaviours wait for
	wg       sync.WaitGroup

	mu       sync.Mutex
	changed  *sync.Cond
	script   script
	paths    map[string]*script
	ledger   []Received
	accepted int
	written  int64
	open     map[net.Conn]bool // whether it is kept, and waits for another request
}

// script gives a behaviour a request; the last one repeats.
type script struct {
	steps []Behaviour
	next  int
}

func (s *script) peek() Behaviour { return s.steps[min(s.next, len(s.steps)-1)] }

func (s *script) take() Behaviour {
	b := s.peek()
	s.next++
	return b
}

// New starts a server that gives the n-th request the n-th behaviour, and the
// last one to all that follow; without behaviours, OK.
func New(tb testing.TB, behaviours ...Behaviour) *Server {
	tb.Helper()
	return start(tb, nil, behaviours)
}

// NewTLS is New behind TLS. Behaviours that act on accept see the bare connection.
func NewTLS(tb testing.TB, cfg *tls.Config, behaviours ...Behaviour) *Server {
	tb.Helper()
	return start(tb, cfg, behaviours)
}

func start(tb testing.TB, cfg *tls.Config, behaviours []Behaviour) *Server {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("upstream: %v", err)
	}
	if len(behaviours) == 0 {
		behaviours = []Behaviour{OK()}
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		t: tb, listener: listener, tls: cfg, stop: cancel, done: ctx.Done(),
		script: script{steps: behaviours}, paths: map[string]*script{}, open: map[net.Conn]bool{},
	}
	s.changed = sync.NewCond(&s.mu)
	s.wg.Go(s.acceptLoop)
	tb.Cleanup(s.Close)
	return s
}

// Handle gives a path a script of its own. The query is no part of the path.
func (s *Server) Handle(path string, behaviours ...Behaviour) *Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paths[path] = &script{steps: behaviours}
	return s
}

// Close stops the server: connections are cut and all it started has ended
// when it returns. It may be called twice; later dials are refused.
func (s *Server) Close() {
	s.stop()
	_ = s.listener.Close()
	s.mu.Lock()
	for c := range s.open {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// Addr is where the server listens.
func (s *Server) Addr() netip.AddrPort {
	return netip.MustParseAddrPort(s.listener.Addr().String())
}

// URL is the server's base without a slash at the end, with the address as host.
func (s *Server) URL() string {
	if s.tls != nil {
		return "https://" + s.Addr().String()
	}
	return "http://" + s.Addr().String()
}

func (s *Server) acceptLoop() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		select {
		case <-s.done:
			_ = conn.Close()
		default:
			s.accepted++
			n := s.accepted
			s.open[conn] = false
			s.wg.Go(func() { s.serve(conn, n) })
		}
		s.changed.Broadcast()
		s.mu.Unlock()
	}
}

func (s *Server) serve(conn net.Conn, number int) {
	defer func() {
		_ = conn.Close()
		s.mu.Lock()
		delete(s.open, conn)
		s.changed.Broadcast()
		s.mu.Unlock()
	}()
	x := &Exchange{server: s, bare: conn, conn: conn, connNumber: number}
	if b, ok := s.onAccept(); ok {
		b.accept(x)
		if x.finished {
			return
		}
	}
	if s.tls != nil {
		secure := tls.Server(conn, s.tls)
		if secure.HandshakeContext(context.Background()) != nil {
			return
		}
		x.conn = secure
	}
	x.reader = bufio.NewReader(x.conn)
	for x.next() {
	}
	if x.conn != x.bare && !x.reset {
		_ = x.conn.Close() // says goodbye before the bare connection closes
	}
}

// onAccept takes the script's next step if it acts on a new connection.
func (s *Server) onAccept() (Behaviour, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.script.peek().accept == nil {
		return Behaviour{}, false
	}
	return s.script.take(), true
}

// onRequest takes the step for a request: its path's script comes first. A
// step that acts on accept has had its turn and answers OK.
func (s *Server) onRequest(path string) Behaviour {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := &s.script
	if own, ok := s.paths[path]; ok {
		from = own
	} else if from.peek().accept != nil {
		return OK()
	}
	return from.take()
}

// wait blocks until cond, called under the lock, holds.
func (s *Server) wait(what string, cond func() bool) {
	s.t.Helper()
	if !poll.On(s.changed, cond) {
		s.t.Fatalf("upstream: waited too long for %s", what)
	}
}

// Cut closes every open connection from the server's side, without a goodbye.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		_ = c.Close()
	}
}
