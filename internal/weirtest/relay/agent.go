package relay

import (
	"context"
	"encoding/json"
	"net/url"
	"sync"

	"github.com/coder/websocket"

	"weir/internal/weirtest/poll"
)

// Agent is the agent's end of a session, over a connection of its own.
type Agent struct {
	r    *Relay
	conn *websocket.Conn
	end  context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	ledger  [][]byte
	taken   map[int]bool
	gone    bool
}

// Agent connects to a session as an agent does. It leaves with its test.
func (r *Relay) Agent(session string) *Agent {
	r.t.Helper()
	q := url.Values{"role": {RoleAgent}, "sessionId": {session}}
	if r.cfg.Token != "" {
		q.Set("token", r.cfg.Token)
	}
	ctx, cancel := context.WithCancel(context.Background())
	conn, _, err := websocket.Dial(ctx, r.URL()+"/?"+q.Encode(), nil) //nolint:bodyclose // there is none to close
	if err != nil {
		cancel()
		r.t.Fatalf("relay: no agent: %v", err)
	}
	conn.SetReadLimit(maxMessage)
	a := &Agent{r: r, conn: conn, end: cancel, taken: map[int]bool{}}
	a.changed = sync.NewCond(&a.mu)
	a.wg.Go(func() { a.read(ctx) })
	r.t.Cleanup(a.Close)
	return a
}

// Close leaves the session. It may be called twice.
func (a *Agent) Close() {
	_ = a.conn.CloseNow()
	a.end()
	a.wg.Wait()
}

func (a *Agent) read(ctx context.Context) {
	for {
		_, data, err := a.conn.Read(ctx)
		a.mu.Lock()
		if err == nil {
			a.ledger = append(a.ledger, data)
		}
		a.gone = err != nil
		a.changed.Broadcast()
		a.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Send sends a message as text.
func (a *Agent) Send(message string) { a.write(websocket.MessageText, message) }

// SendBinary sends a message that is no text.
func (a *Agent) SendBinary(message string) { a.write(websocket.MessageBinary, message) }

func (a *Agent) write(kind websocket.MessageType, message string) {
	a.r.t.Helper()
	if err := a.conn.Write(context.Background(), kind, []byte(message)); err != nil {
		a.r.t.Errorf("relay: the agent cannot send: %v", err)
	}
}

// Ledger is a copy of what the agent has received.
func (a *Agent) Ledger() [][]byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([][]byte(nil), a.ledger...)
}

// Answer blocks for the answer to a request_id that was not taken before.
func (a *Agent) Answer(id string) (answer []byte) {
	a.r.t.Helper()
	poll.On(a.changed, func() bool {
		for n, data := range a.ledger {
			if !a.taken[n] && idOf(data) == id {
				a.taken[n], answer = true, data
				return true
			}
		}
		return a.gone
	})
	if answer == nil {
		a.r.t.Errorf("relay: no answer to %q", id)
	}
	return answer
}

// Ask sends a request and blocks for its answer.
func (a *Agent) Ask(message string) []byte {
	a.r.t.Helper()
	a.Send(message)
	return a.Answer(idOf([]byte(message)))
}

// idOf is the request_id of a message, in its request or beside it.
func idOf(message []byte) string {
	var doc struct {
		RequestID string `json:"request_id"`
		Request   struct {
			RequestID string `json:"request_id"`
		} `json:"request"`
	}
	_ = json.Unmarshal(message, &doc) // what is no message has no id
	if doc.Request.RequestID != "" {
		return doc.Request.RequestID
	}
	return doc.RequestID
}
