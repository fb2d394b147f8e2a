package stream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"

	"weir/internal/fault"
	"weir/internal/problem"
	"weir/schemas"
)

// pageBytes ends a page early: an event may hold a large result.
const pageBytes = 4 << 20

// logPatience is how long a page waits for a log that does not answer.
const logPatience = 10 * time.Second

// longPoll is the longest that a page is waited for.
const longPoll = 25 * time.Second

// HTTP shapes how streams are served. Zero fields take the default.
type HTTP struct {
	KeepAlive    time.Duration // between comments on a silent stream; default 15 s
	WriteTimeout time.Duration // what one write may take; default 10 s
	// Watching is called for every stream that opens (1) and closes (-1).
	Watching func(delta int)
	// Watch decides which requests may hold a stream open; default: all.
	Watch Watch
}

// WithDefaults fills the zero fields.
func (c HTTP) WithDefaults() HTTP {
	c.KeepAlive = cmp.Or(c.KeepAlive, 15*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 10*time.Second)
	if c.Watching == nil {
		c.Watching = func(int) {}
	}
	if c.Watch == nil {
		c.Watch = func(r *http.Request) (context.Context, func(), error) { return r.Context(), func() {}, nil }
	}
	return c
}

// Events serves an action's events: as a stream, as pages, or as a page that
// is waited for.
type Events struct {
	feed *Feed
	cfg  HTTP
}

// NewEvents serves from feed.
func NewEvents(feed *Feed, cfg HTTP) *Events { return &Events{feed: feed, cfg: cfg.WithDefaults()} }

// Serve answers GET /v1/actions/{id}/events for an action of tenant.
func (e *Events) Serve(w http.ResponseWriter, r *http.Request, tenant, id string) {
	d := views()
	d.Ref = schemas.Ref{Tenant: tenant, ID: id}
	e.serve(w, r, d)
}

// ServeAs answers like Serve for the events of one action in a surface's own dialect: as a stream,
// as pages, or as a page with a wait. The request gives the position to start after.
func (e *Events) ServeAs(w http.ResponseWriter, r *http.Request, d Dialect) {
	e.serve(w, r, d.shared())
}

// serve answers with an action's events in the requested form.
func (e *Events) serve(w http.ResponseWriter, r *http.Request, d *Dialect) {
	maps.Copy(w.Header(), d.Header)
	p := NewParams(r.URL.Query(), "after", "live", "limit", "timeout")
	after, resumed := p.LastEventID(r) // before the parameter
	if !resumed {
		after = p.After("after", "must be the id of an event")
	}
	live, poll := p.One("live")
	if poll && live != "long-poll" {
		p.Refuse("live", "can be long-poll")
	}
	form := Accepts(r)
	if p.Err == nil && form == FormNone {
		p.Err = fault.New(schemas.NotAcceptable, "events come as text/event-stream or application/json")
	}
	if p.Err != nil {
		d.Refuse(w, r, p.Err)
		return
	}
	ref, err := d.Ref, error(nil)
	if ref.Kind == "" { // a path does not name it
		ref, err = e.feed.find(r.Context(), ref.Tenant, ref.ID, after)
	}
	if err == nil && !poll && form != FormJSON {
		d.Ref, d.After = ref, after
		e.stream(w, r, d)
		return
	}
	var reader *Reader
	if err == nil {
		reader, err = e.feed.follow(r.Context(), ref, after, !poll)
	}
	if err != nil {
		d.Refuse(w, r, explain(w, d.Ref.ID, err))
		return
	}
	defer reader.Close()
	e.page(w, r, reader, p, poll, d)
}

// find finds an action by its id.
func (f *Feed) find(ctx context.Context, tenant, id string, after uint64) (ref schemas.Ref, err error) {
	if !schemas.ValidActionID(id) {
		return ref, fault.ErrNotFound
	}
	stream := schemas.LogStream(f.cfg.Layout.Partition(tenant, id))
	rec, err := f.last(ctx, stream, f.cfg.Layout.AnyKind(tenant, id))
	if errors.Is(err, fault.ErrNotFound) {
		return ref, f.missing(ctx, stream, after)
	}
	if err != nil {
		return ref, err
	}
	ref, _, err = schemas.ParseSubject(rec.Subject)
	return ref, err
}

// explain words an error of reading an action for its client.
func explain(w http.ResponseWriter, id string, err error) error {
	var gone *GoneError
	switch {
	case errors.As(err, &gone):
		p := &problem.Error{Problem: schemas.Problem{
			Code:   schemas.StreamGone,
			Detail: "events after this position were dropped; resume just before earliest_id, or read the action's status",
		}}
		if gone.Earliest > 0 {
			p.EarliestID = strconv.FormatUint(gone.Earliest, 10)
		}
		w.Header().Set("Link", "<"+ActionURL(id)+`>; rel="describedby"`)
		return p
	case errors.Is(err, ErrBeyond):
		return &fault.Error{Code: schemas.InvalidRequest, Message: "the position lies past the end of the stream", Cause: err}
	case errors.Is(err, fault.ErrNotFound):
		return fault.New(schemas.NotFound, "there is no such action")
	case errors.Is(err, ErrClosed):
		return &fault.Error{Code: schemas.Unavailable, Message: "this node is shutting down; try again", Cause: err}
	default:
		return err
	}
}

// page answers with what there is; with poll it waits for something first.
func (e *Events) page(w http.ResponseWriter, r *http.Request, reader *Reader, p *Params, poll bool, d *Dialect) {
	limit, wait := p.Limit(100), p.seconds("timeout", longPoll)
	if !poll {
		wait = 0
	}
	page, err := schemas.Page[json.RawMessage]{}, p.Err
	if err == nil {
		page, err = e.collect(r.Context(), reader, limit, wait, d)
	}
	if err != nil {
		d.Refuse(w, r, explain(w, d.Ref.ID, err))
		return
	}
	WriteJSON(w, r, http.StatusOK, page)
}

// collect fills a page from the reader, waiting up to wait for its first item. next is set for as
// long as there may be more, so that a client follows an action by further requests.
func (e *Events) collect(ctx context.Context, reader *Reader, limit int, wait time.Duration, d *Dialect) (schemas.Page[json.RawMessage], error) {
	page := schemas.Page[json.RawMessage]{Items: []json.RawMessage{}}
	ctx, cancel := context.WithTimeout(ctx, wait+logPatience)
	defer cancel()
	up := time.NewTimer(wait)
	defer up.Stop()
	size, last := 0, uint64(0)
	for reader.Pending() || (len(page.Items) == 0 && wait > 0 && !reader.Ended()) {
		items, err := reader.Next(ctx, up.C)
		if err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, io.EOF) {
			return page, err
		}
		for _, it := range items {
			if len(page.Items) == limit || size >= pageBytes {
				page.Next = strconv.FormatUint(last, 10)
				return page, nil
			}
			data, err := d.Data(ctx, it)
			if err != nil {
				return page, err
			}
			if last = it.Seq; len(data) > 0 {
				page.Items = append(page.Items, data)
				size += len(data)
			}
		}
		if len(items) == 0 {
			break // the time is up
		}
	}
	if !reader.Ended() {
		page.Next = strconv.FormatUint(reader.Position(), 10)
	}
	return page, nil
}
