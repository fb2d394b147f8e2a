package stream

import (
	"net/http"
	"time"
)

// Writer writes a stream of server-sent events. Every write has a deadline, so a stalled reader
// occupies a connection for that long only; after a resume it gets the missed events.
type Writer struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	until   time.Time // the deadline that stands; zero: none
}

// NewWriter prepares w for a stream and lifts the deadlines that the server
// has set for an ordinary request.
func NewWriter(w http.ResponseWriter, timeout time.Duration) *Writer {
	return &Writer{w: w, rc: http.NewResponseController(w), timeout: timeout}
}

// Header sets the headers of a stream and nothing else.
func Header(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Content-Type-Options", "nosniff")
}

// Open sets the headers. They are sent with the first flush.
func (s *Writer) Open() {
	s.unhurried()
	Header(s.w.Header())
	s.w.WriteHeader(http.StatusOK)
}

// unhurried lifts the deadline of the request's body, which would end the stream.
func (s *Writer) unhurried() { _ = s.rc.SetReadDeadline(time.Time{}) }

// comment is a line that no client sees as an event.
const comment = ":\n\n"

// Comment sends a comment.
func (s *Writer) Comment() error {
	if err := s.Write([]byte(comment)); err != nil {
		return err
	}
	return s.Flush()
}

// Write sends whole frames. They leave at the next Flush, or before.
func (s *Writer) Write(frames []byte) error {
	s.deadline()
	_, err := s.w.Write(frames)
	return err
}

// Flush sends the written data.
func (s *Writer) Flush() error {
	s.deadline()
	return s.rc.Flush()
}

// End lifts the write deadline again: the connection may serve other requests.
func (s *Writer) End() {
	s.until = time.Time{}
	_ = s.rc.SetWriteDeadline(s.until)
}

// deadline sets a write's deadline, up to a quarter later: many small writes then have the same.
// Where deadlines are not supported, the server's own limits apply; if the connection is gone, the
// write fails.
func (s *Writer) deadline() {
	now := time.Now()
	if s.until.Sub(now) >= s.timeout {
		return
	}
	s.until = now.Add(s.timeout + s.timeout/4)
	_ = s.rc.SetWriteDeadline(s.until)
}
