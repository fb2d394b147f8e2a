package upstream

import (
	"net"
	"slices"
	"strings"
	"time"

	"weir/schemas"
)

// Received is one request as it arrived.
type Received struct {
	// Conn is the ordinal of the connection, counted from 1.
	Conn   int
	Method string
	Target string // exactly as on the request line
	Proto  string
	// Headers are in the order and the case of the wire.
	Headers []schemas.Header
	// Body is decoded from its framing. Behaviours that answer early leave it short.
	Body []byte
	Time time.Time
}

// Header is the first value of a field, compared without case; "" if absent.
func (r Received) Header(name string) string {
	if values := r.Values(name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Values are all values of a field in order.
func (r Received) Values(name string) []string {
	var values []string
	for _, h := range r.Headers {
		if strings.EqualFold(h.Name, name) {
			values = append(values, h.Value)
		}
	}
	return values
}

// Ledger is every request received so far, in order of arrival. A request is
// in it before its first byte of answer leaves.
func (s *Server) Ledger() []Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ledger)
}

// Hits counts the requests received so far.
func (s *Server) Hits() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ledger)
}

// Accepted counts the connections accepted so far.
func (s *Server) Accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// WaitHits blocks until n requests were received, and fails the test after 10 s.
func (s *Server) WaitHits(n int) {
	s.t.Helper()
	s.wait("requests", func() bool { return len(s.ledger) >= n })
}

// WaitAccepted blocks until n connections were accepted.
func (s *Server) WaitAccepted(n int) {
	s.t.Helper()
	s.wait("connections", func() bool { return s.accepted >= n })
}

// WaitIdle blocks until every connection is closed, or kept with no request on it: whatever
// was still on its way has arrived by then, so that the ledger is final.
func (s *Server) WaitIdle() {
	s.t.Helper()
	s.wait("idleness", func() bool {
		for _, idle := range s.open {
			if !idle {
				return false
			}
		}
		return true
	})
}

func (s *Server) idle(conn net.Conn, idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.open[conn]; open {
		s.open[conn] = idle
		s.changed.Broadcast()
	}
}

// Written counts the bytes that behaviours got rid of, on all connections: what
// the other side took, and what the kernel holds on the way to it.
func (s *Server) Written() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

func (s *Server) wrote(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written += int64(n)
}

func (s *Server) record(r Received) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger = append(s.ledger, r)
	s.changed.Broadcast()
}
