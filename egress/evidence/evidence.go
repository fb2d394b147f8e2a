// Package evidence serves the records of every attempt and every denial, and
// the letters that could not be delivered.
package evidence

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

// pageBytes ends a page early.
const pageBytes = 4 << 20

// Records serves the streams of evidence and dead letters.
type Records struct {
	log  stream.Log
	live stream.Live
	feed *stream.Feed
}

// New serves from log, as feed serves the events of actions. Each stream subscribes to live for its
// records.
func New(log stream.Log, live stream.Live, feed *stream.Feed) *Records {
	return &Records{log, live, feed}
}

// query is a request for records, read and checked.
type query struct {
	stream, filter string
	after          uint64    // return records after this sequence
	since          time.Time // or what is not older than this
	limit          int
}

// parse reads the parameters of GET /v1/evidence. Last-Event-ID goes before a cursor, and that
// before since.
func parse(r *http.Request, tenant string) (query, error) {
	p := stream.NewParams(r.URL.Query(), "kind", "entry", "action_id", "since", "limit", "cursor")
	var names [3]string
	for i, name := range []string{"kind", "entry", "action_id"} {
		value, ok := p.One(name)
		if names[i] = value; ok && !named(value) {
			p.Refuse(name, "must be a name")
		}
	}
	if kinds := schemas.EvidenceKinds(); names[0] != "" && !slices.Contains(kinds, names[0]) {
		p.Refuse("kind", "must be one of "+strings.Join(kinds, ", "))
	}
	q := query{stream: schemas.EvidenceStream, filter: schemas.EvidenceFilter(tenant, names[0], names[1], names[2], false), limit: p.Limit(100)}
	resumed, ok := p.LastEventID(r)
	if q.after = resumed; ok {
		return q, p.Err
	}
	if q.after = p.After("cursor", cursorForm); p.Has("cursor") {
		return q, p.Err
	}
	since, ok := p.One("since")
	at, numbered := stream.Position(since)
	if q.after = at; ok && !numbered {
		var err error
		if q.since, err = time.Parse(time.RFC3339Nano, since); err != nil {
			p.Refuse("since", "must be a time as RFC 3339 has it, or a sequence")
		}
	}
	return q, p.Err
}

// cursorForm is how the cursor of a list must be.
const cursorForm = "must be the next of an earlier page"

// named accepts what the name of a kind, an entry or an action can be.
func named(s string) bool {
	if s == "" || len(s) > 256 {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Serve answers GET /v1/evidence for a tenant: pages, or a stream where the
// client asks for one.
func (e *Records) Serve(w http.ResponseWriter, r *http.Request, tenant string) {
	q, err := parse(r, tenant)
	sse, ok := stream.Accepts(r, false)
	if err == nil && !ok {
		err = fault.New(schemas.NotAcceptable, "evidence comes as application/json or text/event-stream")
	}
	if err == nil {
		err = e.begin(r.Context(), &q)
	}
	switch {
	case err != nil:
		problem.Write(w, r, err)
	case sse:
		e.follow(w, r, q) //nolint:contextcheck // the request's own, which Watch may cut short
	default:
		e.page(w, r, q, func(rec schemas.Record) (json.RawMessage, error) { return rec.Data, nil })
	}
}

// ServeDead answers GET /v1/dead-letters for a tenant, oldest first.
func (e *Records) ServeDead(w http.ResponseWriter, r *http.Request, tenant string) {
	p := stream.NewParams(r.URL.Query(), "limit", "cursor")
	q := query{
		stream: schemas.DeadStream, filter: schemas.DeadRoot + "." + schemas.EscapeToken(tenant) + ".>",
		limit: p.Limit(100), after: p.After("cursor", cursorForm),
	}
	if p.Err != nil {
		problem.Write(w, r, p.Err)
		return
	}
	e.page(w, r, q, deadLetter)
}

// deadLetter shows the reason of a dead letter without its message, whose content is unchecked.
func deadLetter(rec schemas.Record) (json.RawMessage, error) {
	var d schemas.DeadLetter
	if err := json.Unmarshal(rec.Data, &d); err != nil {
		return nil, err
	}
	return ledger.Encode(schemas.DeadLetterView{
		Seq: rec.Seq, Time: d.Time, Kind: d.Kind, ActionID: d.ActionID, Called: d.Called, Agent: d.Agent,
		Code: d.Code, Reason: d.Reason, ActionURL: stream.ActionURL(d.ActionID),
	})
}

// begin turns where to begin into a sequence, and refuses one that the stream
// cannot continue from.
func (e *Records) begin(ctx context.Context, q *query) error {
	first, last, err := e.log.Bounds(ctx, q.stream)
	switch {
	case err != nil:
		return err
	case !q.since.IsZero():
		q.after, err = e.at(ctx, first, last, q.since)
		return err
	case q.after > last:
		return stream.ErrBeyond
	case q.after > 0 && q.after+1 < first:
		return &problem.Error{Problem: schemas.Problem{
			Code:       schemas.StreamGone,
			Detail:     "evidence after this position was dropped; resume just before earliest_id",
			EarliestID: strconv.FormatUint(first, 10),
		}}
	default:
		return nil
	}
}

// at finds the position before the first record that is not older than a time.
// The stream is in order of time, so it halves.
func (e *Records) at(ctx context.Context, first, last uint64, since time.Time) (uint64, error) {
	low, high := first, last+1 // the record is in [low, high)
	for low < high {
		mid := low + (high-low)/2
		records, _, err := e.log.Page(ctx, schemas.EvidenceStream, schemas.EvidenceRoot+".>", mid, 1, pageBytes)
		if err != nil {
			return 0, err
		}
		if len(records) == 0 || !records[0].Time.Before(since) {
			high = mid
		} else {
			low = records[0].Seq + 1
		}
	}
	return max(low, 1) - 1, nil
}

// next reads up to limit records after the position of a query, which it moves, and waits until they
// may be shown.
func (e *Records) next(ctx context.Context, q *query, limit int) (records []schemas.Record, more bool, err error) {
	records, more, err = e.log.Page(ctx, q.stream, q.filter, q.after+1, limit, pageBytes)
	if err != nil || len(records) == 0 {
		return nil, false, err
	}
	last := records[len(records)-1].Seq
	if err := e.feed.Durable(ctx, q.stream, last); err != nil {
		return nil, false, err
	}
	q.after = last
	return records, more, nil
}

// page answers with a page of records, each as show gives it. A record that cannot be shown is not
// one of ours, and is left out.
func (e *Records) page(w http.ResponseWriter, r *http.Request, q query, show func(schemas.Record) (json.RawMessage, error)) {
	page := schemas.Page[json.RawMessage]{Items: []json.RawMessage{}}
	records, more, err := e.next(r.Context(), &q, q.limit)
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	for _, rec := range records {
		if item, err := show(rec); err == nil && json.Valid(item) {
			page.Items = append(page.Items, item)
		}
	}
	if more {
		page.Next = strconv.FormatUint(q.after, 10)
	}
	stream.WriteJSON(w, r, http.StatusOK, page)
}
