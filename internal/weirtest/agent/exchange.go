package agent

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Exchange is one run and the connection it came on.
type Exchange struct {
	*Request

	w    http.ResponseWriter
	gone <-chan struct{}
	head bool
}

// Gone is closed when the caller has left or the agent stops.
func (x *Exchange) Gone() <-chan struct{} { return x.gone }

// Await blocks until then.
func (x *Exchange) Await() { <-x.gone }

// wait blocks until the channel gives or is closed; false: the caller has left
// before. A nil channel is not waited for.
func (x *Exchange) wait(c <-chan struct{}) bool {
	if c == nil {
		return true
	}
	select {
	case <-c:
		return true
	case <-x.gone:
		return false
	}
}

func (x *Exchange) pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.gone:
		return false
	}
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
	ok := x.Write(fmt.Sprintf("event: %s\ndata: %s\n\n", name, strings.ReplaceAll(data, "\n", "\ndata: ")))
	if ok {
		x.sent.Add(1)
	}
	return ok
}

// Write sends bytes as they are; false: nobody takes them any more.
func (x *Exchange) Write(text string) bool {
	select {
	case <-x.gone:
		return false
	default:
	}
	if _, err := x.w.Write([]byte(text)); err != nil {
		return false
	}
	return x.flush() == nil
}

func (x *Exchange) flush() error { return http.NewResponseController(x.w).Flush() }

// Die ends the connection in the middle of the answer. It does not return.
func (x *Exchange) Die() { panic(http.ErrAbortHandler) }
