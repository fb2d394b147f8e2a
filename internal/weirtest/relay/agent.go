package relay

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"

	"github.com/coder/websocket"
)

// Agent is the agent's end of a session, over a connection of its own. It reads where a test asks for an answer,
// and belongs to the test's goroutine.
type Agent struct {
	r    *Relay
	conn *websocket.Conn
	// ledger is what it has received, and left what of it no test has taken.
	ledger, left [][]byte
}

// Agent connects to a session as an agent does. It leaves with its test.
func (r *Relay) Agent(session string) *Agent {
	r.t.Helper()
	q := url.Values{"role": {RoleAgent}, "sessionId": {session}, "token": {r.cfg.Token}}
	conn, _, err := websocket.Dial(context.Background(), r.URL()+"/?"+q.Encode(), nil) //nolint:bodyclose // there is none to close
	if err != nil {
		r.t.Fatalf("relay: no agent: %v", err)
	}
	conn.SetReadLimit(maxMessage)
	r.t.Cleanup(func() { _ = conn.CloseNow() })
	return &Agent{r: r, conn: conn}
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

// Ledger is what the agent has received up to the newest answer that a test has taken.
func (a *Agent) Ledger() [][]byte { return a.ledger }

// Answer blocks for the answer to a request_id that was not taken before.
func (a *Agent) Answer(id string) (answer []byte) {
	a.r.t.Helper()
	for {
		if n := slices.IndexFunc(a.left, func(data []byte) bool { return idOf(data) == id }); n >= 0 {
			answer = a.left[n]
			a.left = slices.Delete(a.left, n, n+1)
			return answer
		}
		_, data, err := a.conn.Read(context.Background())
		if err != nil {
			a.r.t.Errorf("relay: no answer to %q: %v", id, err)
			return nil
		}
		a.ledger, a.left = append(a.ledger, data), append(a.left, data)
	}
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
