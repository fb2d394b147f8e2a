package llm

import (
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"time"

	"weir/internal/weirtest/doubles"
)

// Exchange is one request and the connection it came on.
type Exchange struct {
	*Request
	doubles.Conn

	w   http.ResponseWriter
	out io.Writer
	zip *gzip.Writer
	act Act
}

// Begin sends the head of the answer at once. No content type: none is sent.
func (x *Exchange) Begin(status int, contentType string) {
	h := x.w.Header()
	h["Content-Type"] = nil
	if contentType != "" {
		h.Set("Content-Type", contentType)
	}
	for name, value := range x.act.Header {
		h.Set(name, value)
	}
	if x.act.Fault == Gzip {
		h.Set("Content-Encoding", "gzip")
		x.zip = gzip.NewWriter(x.w)
		x.out = x.zip
	}
	x.w.WriteHeader(status)
	_ = http.NewResponseController(x.w).Flush() // who has left is seen by the next write
}

// Stream is Begin for a stream of events.
func (x *Exchange) Stream() { x.Begin(http.StatusOK, "text/event-stream") }

// Data writes one event in the plain form; false: nobody takes it any more.
func (x *Exchange) Data(data string) bool {
	return x.Event(x.Write("data: " + data + "\n\n"))
}

// Text writes a chunk with content for the first choice.
func (x *Exchange) Text(content string) bool {
	return x.Data(encode(x.chunk(0, object{"content": content}, "")))
}

// Finish writes the chunk that says why the first choice ended.
func (x *Exchange) Finish(reason string) bool {
	return x.Data(encode(x.chunk(0, object{}, reason)))
}

// Done writes the end of a stream.
func (x *Exchange) Done() bool { return x.Data("[DONE]") }

// Write sends bytes as they are; false: nobody takes them any more.
func (x *Exchange) Write(text string) bool {
	if x.Ended() {
		return false
	}
	if _, err := io.WriteString(x.out, text); err != nil {
		return false
	}
	if x.zip != nil && x.zip.Flush() != nil {
		return false
	}
	return http.NewResponseController(x.w).Flush() == nil
}

// Refuse answers with an error in the form of the protocol.
func (x *Exchange) Refuse(status int, message string) {
	if status == http.StatusTooManyRequests {
		x.w.Header().Set("Retry-After", "7")
	}
	x.Begin(status, "application/json")
	x.Write(encode(map[string]any{"error": map[string]any{
		"message": message, "type": "error", "param": nil, "code": status,
	}}))
}

// Die ends the connection in the middle of the answer. It does not return.
func (x *Exchange) Die() { panic(http.ErrAbortHandler) }

// Reset ends the connection with a reset, where that can be. It does not return.
func (x *Exchange) Reset() {
	if conn, _, err := http.NewResponseController(x.w).Hijack(); err == nil {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
	x.Die()
}

// end closes what the answer was packed into.
func (x *Exchange) end() {
	if x.zip != nil {
		_ = x.zip.Close()
	}
}

// pace writes a stream for measuring.
func (x *Exchange) pace(p *Pace) bool {
	x.Stream()
	piece := "data: " + encode(x.chunk(0, object{"content": p.Text}, "")) + "\n\n"
	start := time.Now()
	for n := range p.Chunks {
		if !x.Pause(time.Until(start.Add(time.Duration(n) * p.Every))) {
			return false
		}
		if !x.Event(x.Write(piece)) {
			return false
		}
	}
	if !x.Finish("stop") {
		return false
	}
	if x.Asked.StreamOptions.IncludeUsage {
		d := x.document("chat.completion.chunk")
		d["usage"] = usage(p.Chunks)
		if !x.Data(encode(d)) {
			return false
		}
	}
	return x.Done()
}
