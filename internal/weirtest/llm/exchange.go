package llm

import (
	"compress/gzip"
	"net"
	"net/http"

	"weir/internal/weirtest/doubles"
)

// Exchange is one request and the answer to it.
type Exchange struct {
	*Request
	doubles.Exchange

	act Act
}

// Begin sends the head of the answer at once, with the headers of its act. No content type: none is sent.
func (x *Exchange) Begin(status int, contentType string) {
	for name, value := range x.act.Header {
		x.W.Header().Set(name, value)
	}
	if x.act.Fault == Gzip {
		x.W.Header().Set("Content-Encoding", "gzip")
		x.Out = gzip.NewWriter(x.W)
	}
	x.Exchange.Begin(status, contentType)
}

// Stream is Begin for a stream of events.
func (x *Exchange) Stream() { x.Begin(http.StatusOK, "text/event-stream") }

// Data writes one event in the plain form; false: nobody takes it any more.
func (x *Exchange) Data(data string) bool { return x.Event("data: " + data + "\n\n") }

// Done writes the end of a stream.
func (x *Exchange) Done() bool { return x.Data("[DONE]") }

// Refuse answers with an error in the form of the protocol.
func (x *Exchange) Refuse(status int, message string) {
	if status == http.StatusTooManyRequests {
		x.W.Header().Set("Retry-After", "7")
	}
	x.Begin(status, "application/json")
	x.Write(doubles.Encode(map[string]any{"error": map[string]any{
		"message": message, "type": "error", "param": nil, "code": status,
	}}))
}

// Reset ends the connection with a reset, where that can be. It does not return.
func (x *Exchange) Reset() {
	if conn, _, err := http.NewResponseController(x.W).Hijack(); err == nil {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
	x.Die()
}
