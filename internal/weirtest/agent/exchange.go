package agent

import (
	"fmt"
	"net/http"
	"strings"

	"weir/internal/weirtest/doubles"
)

// Exchange is one run and the connection it came on.
type Exchange struct {
	*Request
	doubles.Conn

	w    http.ResponseWriter
	head bool
}

// Begin sends the head of the answer at once.
func (x *Exchange) Begin(status int, contentType string) {
	x.head = true
	x.w.Header().Set("Content-Type", contentType)
	x.w.WriteHeader(status)
	_ = x.flush() // who has left is seen by the next write
}

// Stream is Begin for a stream of events.
func (x *Exchange) Stream() { x.Begin(http.StatusOK, "text/event-stream") }

// Event writes one event in the plain form; false: nobody takes it any more.
func (x *Exchange) Event(name, data string) bool {
	return x.Call.Event(x.Write(fmt.Sprintf("event: %s\ndata: %s\n\n", name, strings.ReplaceAll(data, "\n", "\ndata: "))))
}

// Write sends bytes as they are; false: nobody takes them any more.
func (x *Exchange) Write(text string) bool {
	if x.Ended() {
		return false
	}
	if _, err := x.w.Write([]byte(text)); err != nil {
		return false
	}
	return x.flush() == nil
}

func (x *Exchange) flush() error { return http.NewResponseController(x.w).Flush() }

// Die ends the connection in the middle of the answer. It does not return.
func (x *Exchange) Die() { panic(http.ErrAbortHandler) }
