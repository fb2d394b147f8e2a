package evidence

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"weir/egress/stream"
	"weir/internal/problem"
	"weir/schemas"
)

// eventName is the type of every event of an evidence stream; the record says
// its own kind.
const eventName = "evidence"

// chunk is how many records one read of a stream asks for.
const chunk = 64

// follow sends evidence from a position on, for as long as the client stays. The subscription carries
// no record: the stream reads the log from its position.
func (e *Records) follow(w http.ResponseWriter, r *http.Request, q query) {
	if r.Method == http.MethodHead {
		stream.Header(w.Header())
		w.WriteHeader(http.StatusOK)
		return
	}
	ctx, release, err := e.feed.Hold(r)
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	defer release()
	r = r.WithContext(ctx)
	stored := make(chan struct{}, 1) // holds one signal
	signal := func() {
		select {
		case stored <- struct{}{}:
		default:
		}
	}
	_, names, _ := strings.Cut(q.filter, ".") // before the log is read
	stop, err := e.live.Live(schemas.LiveRoot+"."+names, func(schemas.Record) { signal() }, signal)
	if err != nil {
		problem.Write(w, r, &problem.Error{
			Problem: schemas.Problem{Code: schemas.Unavailable, Detail: "the live feed cannot be reached; try again"}, Cause: err,
		})
		return
	}
	defer stop()
	out := e.feed.Writer(w)
	out.Open()
	if out.Comment() != nil { // the client and every proxy learn at once that the stream is open
		return
	}
	tick := time.NewTicker(e.feed.KeepAlive())
	defer tick.Stop()
	for e.drain(r, out, &q) {
		select {
		case <-stored:
		case <-tick.C:
			if out.Comment() != nil {
				return
			}
		case <-r.Context().Done():
			return
		case <-e.feed.Draining():
			out.End()
			return
		}
	}
}

// drain sends everything after the position. An error of the log is no reason
// to end the stream: the next notice or tick reads again.
func (e *Records) drain(r *http.Request, out *stream.Writer, q *query) bool {
	for more := true; more; {
		records, left, err := e.next(r.Context(), q, chunk)
		if err != nil {
			return r.Context().Err() == nil
		}
		for _, rec := range records {
			if err := out.Write(frame(rec)); err != nil {
				return false
			}
		}
		if len(records) > 0 && out.Flush() != nil {
			return false
		}
		more = left
	}
	return true
}

// frame is a record as server-sent. It is stored on one line by us; a writer
// that did otherwise must not be able to end an event in the middle.
func frame(rec schemas.Record) []byte {
	data := rec.Data
	if bytes.ContainsAny(data, "\r\n") {
		var b bytes.Buffer
		if json.Compact(&b, data) != nil {
			return nil
		}
		data = b.Bytes()
	}
	return stream.AppendFrame(make([]byte, 0, len(data)+48), rec.Seq, "", eventName, data)
}
