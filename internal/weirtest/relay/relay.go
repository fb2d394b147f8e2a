// Package relay is a double of the WebSocket relay through which agents reach the agent API. It accepts the
// connections of role relay, and the test is the agent at the other end of each.
//
//	r := relay.New(t)
//	…                                        // something connects to r.URL()
//	a := r.Accept()                          // blocks until it has
//	answer := a.Ask(`{"request":{"request_id":"r1","operation":"ping","args":{}}}`)
//	a.End(1012, "service restart")           // or Cut, or Stall, or r.Refuse
package relay

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// Attempt is a connection that was requested.
type Attempt struct{ Role, Session, Token string }

// Relay is a running double. It stops with its test.
type Relay struct {
	done chan struct{} // closed by end
	end  func()

	t      testing.TB
	server *httptest.Server
	agents chan *Agent
	wg     sync.WaitGroup

	mu       sync.Mutex
	ledger   []Attempt
	refusing []int
	conns    []*websocket.Conn
}

// New starts a relay.
func New(tb testing.TB) *Relay {
	tb.Helper()
	r := &Relay{t: tb, agents: make(chan *Agent, 100), done: make(chan struct{})}
	r.end = sync.OnceFunc(func() { close(r.done) })
	r.server = httptest.NewServer(http.HandlerFunc(r.serve))
	tb.Cleanup(r.Close)
	return r
}

// URL is where it is, without parameters.
func (r *Relay) URL() string { return "ws" + strings.TrimPrefix(r.server.URL, "http") }

// Close cuts every connection. It may be called twice; later dials are refused.
func (r *Relay) Close() {
	r.end()
	r.server.Close()
	r.mu.Lock()
	for _, conn := range r.conns {
		_ = conn.CloseNow()
	}
	r.mu.Unlock()
	r.wg.Wait()
}

func (r *Relay) serve(w http.ResponseWriter, req *http.Request) {
	q := req.URL.Query()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ledger = append(r.ledger, Attempt{Role: q.Get("role"), Session: q.Get("sessionId"), Token: q.Get("token")})
	if len(r.refusing) > 0 {
		w.Header().Set("Location", r.server.URL+"/elsewhere") // for a redirect
		w.WriteHeader(r.refusing[0])
		r.refusing = r.refusing[1:]
		return
	}
	a := &Agent{t: r.t, wg: &r.wg, answers: make(chan []byte, 100), done: r.done}
	conn, err := websocket.Accept(w, req, &websocket.AcceptOptions{
		OnPingReceived: func(context.Context, []byte) bool { return !a.stalled.Load() },
	})
	if err != nil {
		return
	}
	conn.SetReadLimit(-1)
	a.conn = conn
	r.conns = append(r.conns, conn)
	r.wg.Go(a.read)
	r.agents <- a
}

// Accept blocks until the next connection has come that was not refused.
func (r *Relay) Accept() *Agent {
	r.t.Helper()
	select {
	case a := <-r.agents:
		return a
	case <-time.After(patience):
		r.t.Fatal("relay: nobody has connected")
		return nil
	}
}

// patience is the limit of any wait.
const patience = 2 * time.Minute

// Ledger is a copy of the connections that were requested, in their order, with those that were refused.
func (r *Relay) Ledger() []Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ledger)
}

// Refuse answers the next connections with these statuses, one each.
func (r *Relay) Refuse(statuses ...int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusing = append(r.refusing, statuses...)
}

// Agent is the agent at the other end of a connection. It belongs to the test's goroutine.
type Agent struct {
	t       testing.TB
	wg      *sync.WaitGroup
	conn    *websocket.Conn
	stalled atomic.Bool
	answers chan []byte     // closed at the end of the connection
	done    <-chan struct{} // closed with the relay
	// ledger is what the test has received, and left the part of it that no Answer has returned.
	ledger, left [][]byte
}

func (a *Agent) read() {
	defer close(a.answers)
	for {
		_, data, err := a.conn.Read(context.Background())
		if err != nil {
			_ = a.conn.CloseNow()
			return
		}
		select {
		case a.answers <- data:
		case <-a.done:
			return
		}
	}
}

// Send sends a message as text.
func (a *Agent) Send(message string) { a.write(websocket.MessageText, message) }

// SendBinary sends a message that is no text.
func (a *Agent) SendBinary(message string) { a.write(websocket.MessageBinary, message) }

func (a *Agent) write(kind websocket.MessageType, message string) {
	a.t.Helper()
	if err := a.conn.Write(context.Background(), kind, []byte(message)); err != nil {
		a.t.Errorf("relay: the agent cannot send: %v", err)
	}
}

// Ask sends a request and blocks for its answer.
func (a *Agent) Ask(message string) []byte {
	a.t.Helper()
	a.Send(message)
	return a.Answer(idOf([]byte(message)))
}

// Answer blocks for the answer to a request_id that was not returned before.
func (a *Agent) Answer(id string) (answer []byte) {
	a.t.Helper()
	for {
		if n := slices.IndexFunc(a.left, func(data []byte) bool { return idOf(data) == id }); n >= 0 {
			answer = a.left[n]
			a.left = slices.Delete(a.left, n, n+1)
			return answer
		}
		data, ok := <-a.answers
		if !ok {
			a.t.Errorf("relay: no answer to %q: the connection has ended", id)
			return nil
		}
		a.ledger, a.left = append(a.ledger, data), append(a.left, data)
	}
}

// Ledger is what the agent has received up to the newest answer that the test has taken.
func (a *Agent) Ledger() [][]byte { return a.ledger }

// WaitGone blocks until the connection has ended.
func (a *Agent) WaitGone() {
	for late := time.After(patience); ; {
		select {
		case data, ok := <-a.answers:
			if !ok {
				return
			}
			a.ledger = append(a.ledger, data)
		case <-late:
			a.t.Fatal("relay: the connection does not end")
		}
	}
}

// End closes the connection with a code and a reason. It does not wait for the other side.
func (a *Agent) End(code int, reason string) {
	a.wg.Go(func() { _ = a.conn.Close(websocket.StatusCode(code), reason) })
}

// Cut ends the connection without a word.
func (a *Agent) Cut() { _ = a.conn.CloseNow() }

// Stall has the connection stay, without an answer to its pings.
func (a *Agent) Stall() { a.stalled.Store(true) }

// idOf is the request_id of a message, in its request or beside it.
func idOf(message []byte) string {
	type names struct {
		RequestID string `json:"request_id"`
	}
	var doc struct {
		names

		Request names `json:"request"`
	}
	_ = json.Unmarshal(message, &doc) // what is no message has no id
	if doc.Request.RequestID != "" {
		return doc.Request.RequestID
	}
	return doc.RequestID
}
