package llm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Request is one request that the provider has read.
type Request struct {
	Method, Path string
	Header       http.Header
	Body         []byte
	// Asked is Body, decoded; its zero value where that is no request.
	Asked Asked

	number int // of the completions, from 1
	closed chan struct{}
	done   atomic.Bool
	cut    atomic.Bool
	sent   atomic.Int64
}

// Asked is what the provider itself reads of a request.
type Asked struct {
	Model         string          `json:"model"`
	Messages      json.RawMessage `json:"messages"`
	Stream        bool            `json:"stream"`
	N             int             `json:"n"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// Key is the bearer token that came with the request.
func (r *Request) Key() string {
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return key
}

// Closed is closed when the exchange is over: the answer is out, or the caller has
// left, or the provider cut it off.
func (r *Request) Closed() <-chan struct{} { return r.closed }

// Done reports whether all of the answer was written.
func (r *Request) Done() bool { return r.done.Load() }

// Cut reports whether the exchange ended before all of the answer was written: the
// caller left, or the provider was stopped or died of its fault.
func (r *Request) Cut() bool { return r.cut.Load() }

// Sent counts the events that were written so far.
func (r *Request) Sent() int { return int(r.sent.Load()) }

// Ledger is every request so far, in order of arrival, refused ones too. A request is
// in it before the first byte of its answer.
func (s *Server) Ledger() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ledger)
}

// Hits counts the requests in the ledger.
func (s *Server) Hits() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ledger)
}

// guard is how long a wait lasts before it fails the test.
const guard = time.Minute

// WaitRequest blocks until the n-th request, counted from 1, has come, and returns it.
// It fails the test after 10 s, and must be called from the test's goroutine.
func (s *Server) WaitRequest(n int) *Request {
	s.wait("requests", func() bool { return len(s.ledger) >= n })
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger[n-1]
}

// WaitIdle blocks until no request is under way.
func (s *Server) WaitIdle() { s.wait("idleness", func() bool { return s.running == 0 }) }

// wait blocks until cond, called under the lock, holds.
func (s *Server) wait(what string, cond func() bool) {
	late := false
	timer := time.AfterFunc(guard, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		late = true
		s.changed.Broadcast()
	})
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !cond() {
		if late {
			s.fatal("llm: waited too long for %s", what)
			return
		}
		s.changed.Wait()
	}
}

func abort(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// enter writes a request to the ledger.
func (s *Server) enter(r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger = append(s.ledger, r)
	s.running++
	s.changed.Broadcast()
}

// act is what the provider does with a request.
func (s *Server) act(r *Request) Act {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	r.number = s.asked
	if n := len(s.cfg.Script); n > 0 {
		return s.cfg.Script[min(s.asked, n)-1]
	}
	if act, ok := s.cfg.Models[r.Asked.Model]; ok {
		return act
	}
	act := s.cfg.Default
	if f := Fault(r.Asked.Model[strings.LastIndexByte(r.Asked.Model, '/')+1:]); f.known() {
		act.Fault = f
	}
	return act
}

func (s *Server) leave(r *Request) {
	if !r.done.Load() {
		r.cut.Store(true)
	}
	close(r.closed)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.changed.Broadcast()
}
