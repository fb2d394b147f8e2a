// Package evidence serves the records of every attempt and every denial, and
// the letters that could not be delivered.
package evidence

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/schemas"
)

// chunk is how many records one read asks for.
const chunk = 64

// pageBytes ends a page early.
const pageBytes = 4 << 20

// Records serves the streams of evidence and dead letters.
type Records struct {
	log      stream.Log
	durable  stream.Durable
	notifier *notifier
	cfg      stream.HTTP
	done     <-chan struct{}
}

// New serves from log. live notifies of new evidence while there are watchers; done ends every
// stream.
func New(log stream.Log, live stream.Live, durable stream.Durable, cfg stream.HTTP, done <-chan struct{}) *Records {
	return &Records{log: log, durable: durable, notifier: newNotifier(live), cfg: cfg.WithDefaults(), done: done}
}

// query is a request for evidence, read and checked.
type query struct {
	filter string
	after  uint64    // return records after this sequence
	since  time.Time // or what is not older than this
	limit  int
}

func parse(r *http.Request, tenant string) (query, error) {
	q := r.URL.Query()
	if err := stream.Only(q, "kind", "entry", "action_id", "since", "limit", "cursor"); err != nil {
		return query{}, err
	}
	var names [3]string
	for i, name := range []string{"kind", "entry", "action_id"} {
		value, ok, err := stream.One(q, name)
		if err != nil {
			return query{}, err
		}
		if ok && !named(value) {
			return query{}, stream.Invalid("the parameter " + name + " must be a name")
		}
		names[i] = value
	}
	out := query{filter: schemas.EvidenceFilter(tenant, names[0], names[1], names[2], false)}
	var err error
	if out.limit, err = stream.Limit(q, 100); err != nil {
		return out, err
	}
	return out, out.from(r, q)
}

// from reads where to begin: the header of a resumed stream goes first.
func (o *query) from(r *http.Request, q url.Values) (err error) {
	after, ok, err := stream.LastEventID(r)
	if ok || err != nil {
		o.after = after
		return err
	}
	if _, ok := q["cursor"]; ok {
		o.after, err = stream.CursorParam(q)
		return err
	}
	value, ok, err := stream.One(q, "since")
	if !ok || err != nil {
		return err
	}
	if o.after, ok = stream.Position(value); ok {
		return nil
	}
	if o.since, err = time.Parse(time.RFC3339Nano, value); err != nil {
		return stream.Invalid("the parameter since must be a time as RFC 3339 has it, or a sequence")
	}
	return nil
}

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
	form := stream.Accepts(r)
	if err == nil && form == stream.FormNone {
		err = fault.New(schemas.NotAcceptable, "evidence comes as application/json or text/event-stream")
	}
	if err == nil {
		err = e.begin(r.Context(), &q)
	}
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	if form == stream.FormSSE {
		e.stream(w, r, tenant, q) //nolint:contextcheck // the request's own, which Watch may cut short
		return
	}
	cursor := newCursor(e, schemas.EvidenceStream, q.filter, q.after)
	page, err := cursor.page(r.Context(), q.limit, raw)
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	stream.WriteJSON(w, r, http.StatusOK, page)
}

// begin turns where to begin into a sequence, and refuses one that the stream
// cannot continue from.
func (e *Records) begin(ctx context.Context, q *query) error {
	first, last, err := e.log.Bounds(ctx, schemas.EvidenceStream)
	switch {
	case err != nil:
		return err
	case !q.since.IsZero():
		q.after, err = e.at(ctx, first, last, q.since)
		return err
	case q.after > last:
		return stream.Invalid("the position lies past the end of the stream")
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
		records, err := e.log.Range(ctx, schemas.EvidenceStream, schemas.EvidenceRoot+".>", mid, 1)
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

// raw gives a record of evidence as it is stored.
func raw(rec schemas.Record) (json.RawMessage, error) { return rec.Data, nil }
