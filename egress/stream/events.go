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

// query is a decoded request for events.
type query struct {
	after uint64
	poll  bool // a page that is waited for
	form  Form
}

func (q query) purpose() purpose {
	if q.form == FormJSON && !q.poll {
		return glances
	}
	return follows
}

func read(r *http.Request) (query, error) {
	params := r.URL.Query()
	if err := Only(params, "after", "live", "limit", "timeout"); err != nil {
		return query{}, err
	}
	after, err := After(r, params)
	if err != nil {
		return query{}, err
	}
	live, poll, err := One(params, "live")
	if err == nil && poll && live != "long-poll" {
		err = Invalid("the parameter live can be long-poll")
	}
	form := Accepts(r)
	if err == nil && form == FormNone {
		err = fault.New(schemas.NotAcceptable, "events come as text/event-stream or application/json")
	}
	return query{after: after, poll: poll, form: form}, err
}

// Serve answers GET /v1/actions/{id}/events for an action of tenant.
func (e *Events) Serve(w http.ResponseWriter, r *http.Request, tenant, id string) {
	e.serve(w, r, views(), id, func(ctx context.Context, q query) (*Reader, error) { return e.open(ctx, tenant, id, q) })
}

// ServeAs answers like Serve for the events of one action in a surface's own dialect: as a stream,
// as pages, or as a page with a wait. The request gives the position to start after.
func (e *Events) ServeAs(w http.ResponseWriter, r *http.Request, d Dialect) {
	maps.Copy(w.Header(), d.Header)
	e.serve(w, r, d.shared(), d.Ref.ID, func(ctx context.Context, q query) (*Reader, error) {
		return e.feed.follow(ctx, d.Ref, q.after, q.purpose())
	})
}

// serve answers with a reader's events in the requested form.
func (e *Events) serve(w http.ResponseWriter, r *http.Request, d *Dialect, id string, open func(context.Context, query) (*Reader, error)) {
	q, err := read(r)
	if err != nil {
		d.Refuse(w, r, err)
		return
	}
	reader, err := open(r.Context(), q)
	if err != nil {
		d.Refuse(w, r, explain(w, id, err))
		return
	}
	if !q.poll && q.form != FormJSON {
		e.stream(w, r, reader, d)
		return
	}
	defer reader.Close()
	e.page(w, r, reader, q.poll, d)
}

// open finds the action's kind, which the path does not name, and follows it.
func (e *Events) open(ctx context.Context, tenant, id string, q query) (*Reader, error) {
	if !schemas.ValidActionID(id) {
		return nil, fault.ErrNotFound
	}
	f := e.feed
	stream := schemas.LogStream(f.cfg.Layout.Partition(tenant, id))
	rec, ok, err := f.last(ctx, stream, f.cfg.Layout.AnyKind(tenant, id))
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, f.missing(ctx, stream, q.after)
	}
	ref, _, err := schemas.ParseSubject(rec.Subject)
	if err != nil {
		return nil, err
	}
	return f.follow(ctx, ref, q.after, q.purpose())
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
func (e *Events) page(w http.ResponseWriter, r *http.Request, reader *Reader, poll bool, d *Dialect) {
	params := r.URL.Query()
	limit, err := Limit(params, 100)
	var wait time.Duration
	if err == nil {
		wait, err = Seconds(params, "timeout", longPoll)
	}
	if err != nil {
		d.Refuse(w, r, err)
		return
	}
	if !poll {
		wait = 0
	}
	page, err := e.collect(r.Context(), reader, limit, wait, d)
	if err != nil {
		d.Refuse(w, r, explain(w, reader.w.topic.ref.ID, err))
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
