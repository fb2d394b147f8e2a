package stream

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

// unknownType is shown for a record that this version cannot read.
const unknownType schemas.EventType = "unknown"

// Item is one event, decoded once and rendered once for all its watchers.
type Item struct {
	Ref   schemas.Ref
	Seq   uint64
	Event schemas.Event

	topic *topic
	cfg   *Config
	size  int

	once  sync.Once
	frame []byte
	body  []byte // the part of frame that is the JSON

	other    atomic.Pointer[[]byte] // the frame in another dialect
	making   chan struct{}          // holds the watcher that makes other, and guards err
	failures atomic.Uint32          // of making other
	err      error                  // of the last failure
}

// item decodes a record. An unreadable one keeps its position with its readable members, and a
// terminal one still ends the action: a record from another version must not hang a watcher.
func (f *Feed) item(t *topic, rec schemas.Record) *Item {
	it := &Item{Ref: t.ref, Seq: rec.Seq, topic: t, cfg: &f.cfg, size: len(rec.Data), making: make(chan struct{}, 1)}
	ev, err := ledger.Decode(rec.Data)
	if err != nil {
		ev = outline(rec)
	}
	if rec.Ends() && ev.Settled == nil {
		ev.Type = schemas.EventSettled
		ev.Settled = &schemas.Settled{
			Outcome: schemas.OutcomeFailed, Code: schemas.Poison,
			Message: "the record of the outcome cannot be read",
		}
	}
	it.Event = ev
	return it
}

func outline(rec schemas.Record) schemas.Event {
	var o struct {
		N    int               `json:"n"`
		Type schemas.EventType `json:"type"`
		Time time.Time         `json:"time"`
	}
	_ = json.Unmarshal(rec.Data, &o) // unreadable members stay zero
	if o.Time.IsZero() {
		o.Time = rec.Time
	}
	if o.Type == "" || len(o.Type) > 32 || strings.Trim(string(o.Type), "abcdefghijklmnopqrstuvwxyz_") != "" {
		o.Type = unknownType // it is not valid in the event field of a frame
	}
	return schemas.Event{N: max(o.N, 0), Type: o.Type, Time: o.Time}
}

// JSON is the public form of the event, on one line. It is shared: do not
// change it.
func (it *Item) JSON() json.RawMessage {
	it.once.Do(it.render)
	return it.body
}

// Frame is the event as server-sent. It is shared: do not change it.
func (it *Item) Frame() []byte {
	it.once.Do(it.render)
	return it.frame
}

func (it *Item) render() {
	body, err := ledger.Encode(it.public())
	if err != nil { // a raw member that is not JSON: the event keeps its place
		body, _ = ledger.Encode(schemas.EventView{Seq: it.Seq, N: it.Event.N, Type: it.Event.Type, Time: it.Event.Time})
	}
	it.frame = AppendFrame(make([]byte, 0, len(body)+64), it.Seq, "", string(it.Event.Type), body)
	it.body = it.frame[len(it.frame)-len(body)-2 : len(it.frame)-2 : len(it.frame)-2]
}

// AppendFrame appends one server-sent event. suffix is the end of its id, and must not have line
// ends. data must be one line, as JSON without white space between its tokens always is; name must be
// a keyword.
func AppendFrame(b []byte, id uint64, suffix, name string, data []byte) []byte {
	b = append(b, "id: "...)
	b = strconv.AppendUint(b, id, 10)
	b = append(b, suffix...)
	b = append(b, "\nevent: "...)
	b = append(b, name...)
	b = append(b, "\ndata: "...)
	b = append(b, data...)
	return append(b, "\n\n"...)
}

// WriteJSON answers with a document. It is not cached, because it is private and changes.
func WriteJSON(w http.ResponseWriter, r *http.Request, status int, v any) {
	body, err := ledger.Encode(v)
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	WriteBody(w, status, "application/json", body)
}

// WriteBody answers with bytes as they are.
func WriteBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:gosec // JSON that is said to be JSON; the client is gone if it fails
}
