// Package doubles has the parts that the doubles of upstreams share: a server with a transcript of its
// requests, and the answer to a request, as a double writes it.
package doubles

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
)

// Exchange is the answer to a call, and the connection that it goes over.
type Exchange struct {
	W http.ResponseWriter
	// Out is W, or a writer that packs for it.
	Out  io.Writer
	call *Call
	gone <-chan struct{} // its caller has left, or the double stops
}

// NewExchange is the answer to a call that came with a request.
func NewExchange(c *Call, w http.ResponseWriter, r *http.Request) Exchange {
	return Exchange{W: w, Out: w, call: c, gone: r.Context().Done()}
}

// Ended reports whether nobody takes the answer any more.
func (x *Exchange) Ended() bool {
	select {
	case <-x.gone:
		return true
	default:
		return false
	}
}

// Await blocks until then.
func (x *Exchange) Await() { <-x.gone }

// Wait blocks until the channel gives or is closed; false: the caller has left before. A
// nil channel is not waited for.
func (x *Exchange) Wait(c <-chan struct{}) bool {
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

// Begin sends the head of the answer at once. No content type: none is sent.
func (x *Exchange) Begin(status int, contentType string) {
	x.W.Header()["Content-Type"] = nil
	if contentType != "" {
		x.W.Header().Set("Content-Type", contentType)
	}
	x.W.WriteHeader(status)
	_ = x.flush() // who has left is seen by the next write
}

// Write sends bytes as they are; false: nobody takes them any more.
func (x *Exchange) Write(text string) bool {
	if x.Ended() {
		return false
	}
	_, err := io.WriteString(x.Out, text)
	return err == nil && x.flush() == nil
}

func (x *Exchange) flush() error {
	if packed, ok := x.Out.(interface{ Flush() error }); ok {
		if err := packed.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(x.W).Flush()
}

// Event is Write of one event of a stream, which is counted.
func (x *Exchange) Event(text string) bool {
	written := x.Write(text)
	if written {
		x.call.sent.Add(1)
	}
	return written
}

// Die ends the connection in the middle of the answer. It does not return.
func (x *Exchange) Die() { panic(http.ErrAbortHandler) }

// Encode is the JSON of v without HTML escapes. A RawMessage in it must be JSON.
func Encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("not JSON: " + err.Error())
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}
