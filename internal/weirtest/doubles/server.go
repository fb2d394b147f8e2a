package doubles

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"

	"weir/internal/weirtest/poll"
)

// Call is a request that a double has read, and what became of its answer.
type Call struct {
	closed chan struct{}
	done   atomic.Bool
	cut    atomic.Bool
	sent   atomic.Int64
}

// NewCall is the call of a request that was just read.
func NewCall() *Call { return &Call{closed: make(chan struct{})} }

// Closed is closed when the exchange is over: the answer is out, or the caller has left, or
// the double cut it off.
func (c *Call) Closed() <-chan struct{} { return c.closed }

// Done reports whether all of the answer was written.
func (c *Call) Done() bool { return c.done.Load() }

// Cut reports whether the exchange ended before all of the answer was written: the caller
// left, or the double was stopped or died of its fault.
func (c *Call) Cut() bool { return c.cut.Load() }

// Sent counts the events that were written so far.
func (c *Call) Sent() int { return int(c.sent.Load()) }

// Answered notes whether all of the answer was written.
func (c *Call) Answered(all bool) { c.done.Store(all) }

// Server is the HTTP server of a double, and the ledger of the requests that it has read.
type Server[R any] struct {
	fatal  func(format string, args ...any)
	server *httptest.Server
	stop   context.CancelFunc

	mu      sync.Mutex
	changed *sync.Cond
	ledger  []R
	running int
}

// Serve starts a server on a port of loopback. fatal ends a wait that takes too long; nil: it panics.
func Serve[R any](handler http.Handler, fatal func(format string, args ...any)) *Server[R] {
	if fatal == nil {
		fatal = func(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:gosec // Close calls it
	s := &Server[R]{server: httptest.NewUnstartedServer(handler), stop: cancel, fatal: fatal}
	s.changed = sync.NewCond(&s.mu)
	s.server.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	s.server.Start()
	return s
}

// Close cuts every connection and waits for what was under way. It may be called
// twice; later dials are refused.
func (s *Server[R]) Close() {
	s.stop()
	s.server.CloseClientConnections()
	s.server.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.running > 0 {
		s.changed.Wait()
	}
}

// Addr is its host and port.
func (s *Server[R]) Addr() string { return s.server.Listener.Addr().String() }

// Ledger is every request so far, in order of arrival. A request is in it before the first
// byte of its answer.
func (s *Server[R]) Ledger() []R {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ledger)
}

// Hits counts the requests in the ledger.
func (s *Server[R]) Hits() int { return len(s.Ledger()) }

// Enter writes a request to the ledger and returns its ordinal, from 1.
func (s *Server[R]) Enter(r R) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger = append(s.ledger, r)
	s.running++
	s.changed.Broadcast()
	return len(s.ledger)
}

// Remove ends the exchange of a request.
func (s *Server[R]) Remove(c *Call) {
	if !c.Done() {
		c.cut.Store(true)
	}
	close(c.closed)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.changed.Broadcast()
}

// WaitFor blocks until the n-th request, counted from 1, has come, and returns it. It must be
// called from the test's goroutine.
func (s *Server[R]) WaitFor(n int) R {
	s.wait("requests", func() bool { return len(s.ledger) >= n })
	return s.Ledger()[n-1]
}

// WaitIdle blocks until no request is under way.
func (s *Server[R]) WaitIdle() { s.wait("idleness", func() bool { return s.running == 0 }) }

// wait blocks until cond, called under the lock, holds.
func (s *Server[R]) wait(what string, cond func() bool) {
	if !poll.On(s.changed, cond) {
		s.fatal("waited too long for %s", what)
	}
}
