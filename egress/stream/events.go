package stream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"weir/internal/fault"
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

func (c HTTP) withDefaults() HTTP {
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

// KeepAlive is the time between comments on a silent stream.
func (f *Feed) KeepAlive() time.Duration { return f.cfg.HTTP.KeepAlive }

// AnswerAs answers with an action's events in a surface's own dialect, to the
// action's end.
func (f *Feed) AnswerAs(w http.ResponseWriter, r *http.Request, d Dialect) {
	w.Header().Set("Weir-Action-Id", d.Ref.ID)
	f.stream(w, r, &d)
}

// ServeAs answers with the events of one action in a surface's own dialect: as a stream, as pages,
// or as a page with a wait. The request gives the position to start after.
func (f *Feed) ServeAs(w http.ResponseWriter, r *http.Request, d Dialect) {
	p := NewParams(r.URL.Query(), "after", "live", "limit", "timeout")
	after, resumed := p.LastEventID(r) // before the parameter
	if !resumed {
		after = p.After("after", "must be the id of an event")
	}
	live, poll := p.One("live")
	if poll && live != "long-poll" {
		p.Refuse("live", "can be long-poll")
	}
	sse, ok := Accepts(r, true)
	if p.Err == nil && !ok {
		p.Err = fault.New(schemas.NotAcceptable, "events come as text/event-stream or application/json")
	}
	if p.Err != nil {
		d.Refuse(w, r, p.Err)
		return
	}
	ref, err := d.Ref, error(nil)
	if ref.Kind == "" { // a path does not name it
		ref, err = f.find(r.Context(), ref.Tenant, ref.ID, after)
	}
	if err == nil && !poll && sse {
		d.Ref, d.After = ref, after
		f.stream(w, r, &d)
		return
	}
	if d.Data == nil {
		d.Data = func(_ context.Context, it *Item) ([]byte, error) { return it.JSON(), nil }
	}
	var page schemas.Page[json.RawMessage]
	if err == nil {
		page, err = f.page(r.Context(), ref, after, p, poll, d.Data)
	}
	if err != nil {
		d.Refuse(w, r, explain(w, d.Ref.ID, err))
		return
	}
	WriteJSON(w, r, http.StatusOK, page)
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
	switch {
	case errors.Is(err, fault.ErrGone):
		w.Header().Set("Link", "<"+ActionURL(id)+`>; rel="describedby"`)
	case errors.Is(err, fault.ErrNotFound):
		return fault.New(schemas.NotFound, "there is no such action")
	}
	return err
}

// page is what there is after a position; with poll it waits for something first. next is set for as
// long as there may be more, so that a client follows an action by further requests.
func (f *Feed) page(
	ctx context.Context, ref schemas.Ref, after uint64, p *Params, poll bool, data func(context.Context, *Item) ([]byte, error),
) (schemas.Page[json.RawMessage], error) {
	page := schemas.Page[json.RawMessage]{Items: []json.RawMessage{}}
	reader, err := f.follow(ctx, ref, after, !poll)
	if err != nil {
		return page, err
	}
	defer reader.Close()
	limit, wait := p.Limit(100), p.seconds("timeout", longPoll)
	if p.Err != nil {
		return page, p.Err
	}
	if !poll {
		wait = 0
	}
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
			item, err := data(ctx, it)
			if err != nil {
				return page, err
			}
			if last = it.Seq; len(item) > 0 {
				page.Items = append(page.Items, item)
				size += len(item)
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

// Each gives the events of an action after a position to fn, in order and as they come, until the
// action has ended or fn wants no more. It is for answers: it goes on while the node drains, until
// EndWaits. Errors are those of Reader.Next, ErrClosed and fn's own, which stand for a client that
// takes no more. If the client has gone, left is called as Dialect.OnAbandon is.
func (f *Feed) Each(client context.Context, ref schemas.Ref, after uint64, left func(), fn func(it *Item) (more bool, err error)) error {
	reader, gone := f.reader(ref, after, true, false), false
	defer func() {
		if alone := reader.Close(); gone || client.Err() != nil {
			f.gone(client, alone, left)
		}
	}()
	if err := reader.open(client); err != nil {
		return err
	}
	for {
		items, err := reader.Next(client, nil)
		if errors.Is(err, io.EOF) {
			return nil
		}
		for _, it := range items {
			var more bool
			if more, err = fn(it); !more || err != nil {
				gone = err != nil
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// Writer writes an answer in pieces, each of which has a deadline as those of streams have.
func (f *Feed) Writer(w http.ResponseWriter) *Writer { return NewWriter(w, f.cfg.HTTP.WriteTimeout) }

// Watch permits a stream for a request until release is called or ctx ends, which may be before the
// request's own context; or it refuses the request with an error that becomes a problem.
type Watch func(r *http.Request) (ctx context.Context, release func(), err error)

type slotKey struct{}

// AcquireSlot reserves a stream for a request before its action is stored, so that a refused request
// has stored nothing. The stream that answers the returned request uses the slot. Call leave after
// the answer, whether there was a stream or not.
func (f *Feed) AcquireSlot(r *http.Request) (seated *http.Request, leave func(), err error) { //nolint:contextcheck // the one that Watch has given
	ctx, release, err := f.slot(r)
	if err != nil {
		return nil, nil, err
	}
	var held Watch = func(*http.Request) (context.Context, func(), error) { return ctx, release, nil }
	return r.WithContext(context.WithValue(r.Context(), slotKey{}, held)), release, nil
}

// Hold holds a stream open for a request, until release is called or ctx ends, by the request's slot or
// as HTTP.Watch permits.
func (f *Feed) Hold(r *http.Request) (ctx context.Context, release func(), err error) {
	ctx, leave, err := f.slot(r)
	if err != nil {
		return nil, nil, err
	}
	f.cfg.HTTP.Watching(1)
	return ctx, func() { f.cfg.HTTP.Watching(-1); leave() }, nil
}

// slot is the request's slot or, without one, one that HTTP.Watch permits. release may be called twice.
func (f *Feed) slot(r *http.Request) (ctx context.Context, release func(), err error) {
	if held, ok := r.Context().Value(slotKey{}).(Watch); ok {
		return held(r)
	}
	ctx, release, err = f.cfg.HTTP.Watch(r)
	return ctx, sync.OnceFunc(release), err
}
