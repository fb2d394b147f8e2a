package githttp

import (
	"io"
	"net/http"
	"time"
)

// What is read of a body whose request is refused, at the most. A client that still sends
// sees a connection that was reset, and not the answer, if nobody reads on.
const (
	lingering  = 64 << 20
	lingerTime = 3 * time.Second
	// small is what net/http reads by itself, and keeps the connection.
	small = 256 << 10
)

// Refuse has a request answered whose body may not have come yet, and goes on reading
// that for a while. Answer writes all of the answer.
func Refuse(w http.ResponseWriter, r *http.Request, answer func()) {
	if r.ContentLength >= 0 && r.ContentLength <= small || r.Header.Get("Expect") != "" {
		answer()
		return
	}
	w.Header().Set("Connection", "close") // or net/http would read before it answers, and close what is left
	answer()
	conn := http.NewResponseController(w)
	if conn.Flush() != nil || conn.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, r.Body, lingering)
}
