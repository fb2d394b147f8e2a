// Package relay is a double of the WebSocket relay through which agents reach the
// agent API: two ends meet in a session, as role=agent and role=relay, and each
// gets what the other sends. It is an ordinary WebSocket server on loopback and
// keeps a ledger of the connections that were asked for.
//
// By default it is correct: parameters that are missing get 400, a wrong token 401,
// who comes later puts an earlier one of its role out with 1012 "replaced", and
// what has nobody to go to is dropped.
//
//	r := relay.New(t, relay.Config{Token: "shared"})
//	…                                        // something connects to r.URL()
//	r.Wait("s1", 1)                          // blocks until it has, once
//	a := r.Agent("s1")                       // the other end, over a connection of its own
//	answer := a.Ask(`{"request":{"request_id":"r1","operation":"ping","args":{}}}`)
//	r.End("s1", 1012, "service restart")     // or Cut, or Stall, or Refuse
package relay

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// The roles.
const (
	RoleAgent = "agent"
	RoleRelay = "relay"
)

// maxMessage is the largest message that it passes on, in bytes.
const maxMessage = 32 << 20

// Config says what a relay is like. Its zero value asks nobody for a token.
type Config struct {
	// Token is asked of both roles; empty: none is.
	Token string
}

// Attempt is a connection that was asked for.
type Attempt struct {
	Role, Session, Token string
	// Status is the answer to it: 101, or a refusal.
	Status int
	Header http.Header
}

// Relay is a running double. It stops with its test.
type Relay struct {
	t      testing.TB
	cfg    Config
	server *http.Server
	addr   string
	wg     sync.WaitGroup

	mu       sync.Mutex
	changed  *sync.Cond
	ledger   []Attempt
	refusing []int
	sessions map[string]*session
	ended    bool
}

// session is where two ends meet.
type session struct {
	ends   map[string]*end
	relays int // that ever came
}

// end is one connection.
type end struct {
	conn    *websocket.Conn
	raw     net.Conn
	stalled atomic.Bool
}

// New starts a relay.
func New(tb testing.TB, cfg Config) *Relay {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("relay: %v", err)
	}
	r := &Relay{t: tb, cfg: cfg, addr: listener.Addr().String(), sessions: map[string]*session{}}
	r.changed = sync.NewCond(&r.mu)
	r.server = &http.Server{
		Handler: http.HandlerFunc(r.serve), ReadHeaderTimeout: 10 * time.Second,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	r.wg.Go(func() { _ = r.server.Serve(listener) })
	tb.Cleanup(r.Close)
	return r
}

type connKey struct{}

// URL is where it is, without parameters.
func (r *Relay) URL() string { return "ws://" + r.addr }

// Close cuts every connection. It may be called twice; later dials are refused.
func (r *Relay) Close() {
	_ = r.server.Close()
	r.mu.Lock()
	r.ended = true
	for _, s := range r.sessions {
		for _, e := range s.ends {
			_ = e.raw.Close()
		}
	}
	r.changed.Broadcast()
	r.mu.Unlock()
	r.wg.Wait()
}

// serve takes one connection and passes on what comes over it.
func (r *Relay) serve(w http.ResponseWriter, req *http.Request) {
	q := req.URL.Query()
	a := Attempt{Role: q.Get("role"), Session: q.Get("sessionId"), Token: q.Get("token"), Header: req.Header.Clone()}
	a.Status = r.check(a)
	if a.Status != http.StatusSwitchingProtocols {
		r.enter(a)
		if a.Status >= 300 && a.Status < 400 {
			w.Header().Set("Location", "http://"+r.addr+"/elsewhere")
		}
		w.WriteHeader(a.Status)
		return
	}
	e := &end{}
	conn, err := websocket.Accept(w, req, &websocket.AcceptOptions{
		OnPingReceived: func(context.Context, []byte) bool { return !e.stalled.Load() },
	})
	if err != nil {
		return
	}
	conn.SetReadLimit(maxMessage)
	raw, _ := req.Context().Value(connKey{}).(net.Conn)
	e.conn, e.raw = conn, raw
	if !r.join(a, e) {
		_ = conn.CloseNow()
		return
	}
	defer r.leave(a, e)
	for {
		kind, data, err := conn.Read(context.WithoutCancel(req.Context()))
		if err != nil {
			return
		}
		if peer := r.peer(a); peer != nil {
			_ = peer.conn.Write(context.WithoutCancel(req.Context()), kind, data) // nobody is left: it is dropped
		}
	}
}

// check is the status that a connection gets.
func (r *Relay) check(a Attempt) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(r.refusing) > 0 && a.Role == RoleRelay:
		status := r.refusing[0]
		r.refusing = r.refusing[1:]
		return status
	case a.Session == "", a.Role != RoleAgent && a.Role != RoleRelay:
		return http.StatusBadRequest
	case r.cfg.Token != "" && a.Token != r.cfg.Token:
		return http.StatusUnauthorized
	default:
		return http.StatusSwitchingProtocols
	}
}

func (r *Relay) enter(a Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ledger = append(r.ledger, a)
	r.changed.Broadcast()
}

// join puts an end into its session, and the one before it out.
func (r *Relay) join(a Attempt, e *end) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return false
	}
	s := r.sessions[a.Session]
	if s == nil {
		s = &session{ends: map[string]*end{}}
		r.sessions[a.Session] = s
	}
	if before := s.ends[a.Role]; before != nil {
		r.wg.Go(func() { _ = before.conn.Close(websocket.StatusServiceRestart, "replaced") })
	}
	s.ends[a.Role] = e
	if a.Role == RoleRelay {
		s.relays++
	}
	r.wg.Add(1)
	r.ledger = append(r.ledger, a)
	r.changed.Broadcast()
	return true
}

func (r *Relay) leave(a Attempt, e *end) {
	_ = e.conn.CloseNow()
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sessions[a.Session]; s.ends[a.Role] == e {
		delete(s.ends, a.Role)
	}
	r.changed.Broadcast()
	r.wg.Done()
}

// peer is the other end of a session, or nil.
func (r *Relay) peer(a Attempt) *end {
	role := RoleAgent
	if a.Role == RoleAgent {
		role = RoleRelay
	}
	return r.end(a.Session, role)
}

func (r *Relay) end(name, role string) *end {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sessions[name]; s != nil {
		return s.ends[role]
	}
	return nil
}
