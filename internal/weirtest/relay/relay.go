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
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"weir/internal/weirtest/poll"
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
type Attempt struct{ Role, Session, Token string }

// peer is the other end of its session.
func (a Attempt) peer() place {
	if a.Role == RoleAgent {
		return place{a.Session, RoleRelay}
	}
	return place{a.Session, RoleAgent}
}

// place is one end of a session.
type place struct{ session, role string }

// Relay is a running double. It stops with its test.
type Relay struct {
	t      testing.TB
	cfg    Config
	server *http.Server
	addr   string
	wg     sync.WaitGroup

	mu       sync.Mutex
	ledger   []Attempt
	refusing []int
	ends     map[place]*end
	came     map[place]int // how many connections ever had it
	ended    bool
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
	r := &Relay{t: tb, cfg: cfg, addr: listener.Addr().String(), ends: map[place]*end{}, came: map[place]int{}}
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
	for _, e := range r.ends {
		_ = e.raw.Close()
	}
	r.mu.Unlock()
	r.wg.Wait()
}

// serve takes one connection and passes on what comes over it.
func (r *Relay) serve(w http.ResponseWriter, req *http.Request) {
	q := req.URL.Query()
	a := Attempt{Role: q.Get("role"), Session: q.Get("sessionId"), Token: q.Get("token")}
	if status := r.check(a); status != http.StatusSwitchingProtocols {
		w.Header().Set("Location", "http://"+r.addr+"/elsewhere") // for a redirect
		w.WriteHeader(status)
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
		if peer := r.at(a.peer()); peer != nil {
			_ = peer.conn.Write(context.WithoutCancel(req.Context()), kind, data) // nobody is left: it is dropped
		}
	}
}

// check is the status that a connection gets. It notes those that are refused.
func (r *Relay) check(a Attempt) (status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(r.refusing) > 0 && a.Role == RoleRelay:
		status, r.refusing = r.refusing[0], r.refusing[1:]
	case a.Session == "", a.Role != RoleAgent && a.Role != RoleRelay:
		status = http.StatusBadRequest
	case r.cfg.Token != "" && a.Token != r.cfg.Token:
		status = http.StatusUnauthorized
	default:
		return http.StatusSwitchingProtocols
	}
	r.ledger = append(r.ledger, a)
	return status
}

// join puts an end into its session, and the one before it out.
func (r *Relay) join(a Attempt, e *end) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return false
	}
	at := place{a.Session, a.Role}
	if before := r.ends[at]; before != nil {
		r.wg.Go(func() { _ = before.conn.Close(websocket.StatusServiceRestart, "replaced") })
	}
	r.ends[at] = e
	r.came[at]++
	r.wg.Add(1)
	r.ledger = append(r.ledger, a)
	return true
}

func (r *Relay) leave(a Attempt, e *end) {
	_ = e.conn.CloseNow()
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := (place{a.Session, a.Role}); r.ends[at] == e {
		delete(r.ends, at)
	}
	r.wg.Done()
}

// at is the connection at one end of a session, or nil.
func (r *Relay) at(p place) *end {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ends[p]
}

// Ledger is a copy of the connections that were asked for, in their order.
func (r *Relay) Ledger() []Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ledger)
}

// Wait blocks until as many connections of role relay have come to a session, the
// present one with it, and one is there.
func (r *Relay) Wait(session string, times int) {
	r.t.Helper()
	at := place{session, RoleRelay}
	poll.Until(r.t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.came[at] >= times && r.ends[at] != nil
	}, "a relay end")
}

// WaitGone blocks until no connection of role relay is in a session.
func (r *Relay) WaitGone(session string) {
	r.t.Helper()
	poll.Until(r.t, func() bool { return r.at(place{session, RoleRelay}) == nil }, "a relay end to go")
}

// Refuse answers the next connections of role relay with these statuses, one each.
func (r *Relay) Refuse(statuses ...int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusing = append(r.refusing, statuses...)
}

// End closes the relay end of a session with a code and a reason. It does not wait
// for that to be heard.
func (r *Relay) End(session string, code int, reason string) {
	if e := r.present(session); e != nil {
		r.wg.Go(func() { _ = e.conn.Close(websocket.StatusCode(code), reason) }) // it waits for the other side
	}
}

// Cut ends the connection of the relay end without a word.
func (r *Relay) Cut(session string) {
	if e := r.present(session); e != nil {
		_ = e.raw.Close()
	}
}

// Stall has the connection of the relay end stay, without an answer to its pings.
func (r *Relay) Stall(session string) {
	if e := r.present(session); e != nil {
		e.stalled.Store(true)
	}
}

func (r *Relay) present(session string) *end {
	e := r.at(place{session, RoleRelay})
	if e == nil {
		r.t.Errorf("relay: there is no relay end in session %q", session)
	}
	return e
}
