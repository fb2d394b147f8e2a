package evidence

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"weir/egress/stream"
	"weir/internal/problem"
	"weir/schemas"
)

// eventName is the type of every event of an evidence stream; the record says
// its own kind.
const eventName = "evidence"

// stream sends evidence from a position on, for as long as the client stays.
func (e *Records) stream(w http.ResponseWriter, r *http.Request, tenant string, q query) {
	if r.Method == http.MethodHead {
		stream.Header(w.Header())
		w.WriteHeader(http.StatusOK)
		return
	}
	ctx, release, err := e.cfg.Watch(r)
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	defer release()
	r = r.WithContext(ctx)
	notified, leave, err := e.notifier.subscribe(tenant) // before the log is read
	if err != nil {
		refuse(w, r, err)
		return
	}
	defer leave()
	e.cfg.Watching(1)
	defer e.cfg.Watching(-1)
	out := stream.NewWriter(w, e.cfg.WriteTimeout)
	out.Open()
	if out.Comment() != nil { // the client and every proxy learn at once that the stream is open
		return
	}
	tick := time.NewTicker(e.cfg.KeepAlive)
	defer tick.Stop()
	c := newCursor(e, schemas.EvidenceStream, q.filter, q.after)
	for {
		if !e.drain(r, out, c) {
			return
		}
		if !out.Live() {
			return // the client resumes, and so polls
		}
		select {
		case <-notified:
		case <-tick.C:
			if out.Comment() != nil {
				return
			}
		case <-r.Context().Done():
			return
		case <-e.done:
			out.End()
			return
		}
	}
}

// drain sends everything behind the cursor. An error of the log is no reason
// to end the stream: the next notice or tick reads again.
func (e *Records) drain(r *http.Request, out *stream.Writer, c *cursor) bool {
	for {
		records, err := c.next(r.Context(), chunk)
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
		if len(records) < chunk {
			return true
		}
	}
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
	return stream.AppendFrame(make([]byte, 0, len(data)+48), rec.Seq, eventName, data)
}
