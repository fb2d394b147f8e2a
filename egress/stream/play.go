package stream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"weir/internal/wire"
)

// play is one stream.
type play struct {
	e      *Events
	reader *Reader
	render func(ctx context.Context, it *Item) ([]byte, error)
	out    Writer
	buf    []byte // frames that are to be written, while there are any
	// release is of what Watch has held.
	release func()
	// client ends when the client has gone.
	client context.Context //nolint:containedctx // the request's
	left   func()
	cut    func() []byte
	answer bool
	// over: everything was given, the action's end too, or another answer. away: nothing
	// can be written.
	over, away bool
}

// stream answers with what reader gives, and takes the reader over.
func (e *Events) stream(w http.ResponseWriter, r *http.Request, reader *Reader, d *Dialect) {
	p := &play{
		e: e, reader: reader, render: d.Frame, out: makeWriter(w, e.cfg.WriteTimeout),
		client: r.Context(), left: d.Left, cut: d.Cut, answer: d.Answer,
	}
	ctx := p.start(w, r, d)
	if ctx == nil {
		p.close()
		return
	}
	p.run(ctx) //nolint:contextcheck // as above
}

// start begins the answer. It returns until when the stream may go on, and nil
// where nothing is left to do.
func (p *play) start(w http.ResponseWriter, r *http.Request, d *Dialect) (ctx context.Context) {
	if d.Hold > 0 { // what is held back is held open
		if ctx = p.admit(w, r, d); ctx == nil {
			return nil
		}
		p.out.unhurried()
	}
	if d.Plain || d.Hold > 0 {
		if err := p.lead(r.Context(), d); err != nil {
			if p.client.Err() == nil {
				d.Refuse(w, r, explain(w, p.reader.w.topic.ref.ID, err))
				p.over = true
			}
			return nil
		}
	}
	if len(p.buf) == 0 && p.reader.Ended() {
		if p.over = true; d.Over == nil {
			w.WriteHeader(http.StatusNoContent) // tells an EventSource to stop resuming
			return nil
		}
		p.buf = d.Over
	}
	if r.Method == http.MethodHead {
		Header(w.Header())
		w.WriteHeader(http.StatusOK)
		return nil
	}
	if ctx == nil {
		if ctx = p.admit(w, r, d); ctx == nil {
			return nil
		}
	}
	if p.begin() != nil {
		p.away = true
		return nil
	}
	return ctx
}

// admit has the stream held open, or answers that it may not be.
func (p *play) admit(w http.ResponseWriter, r *http.Request, d *Dialect) context.Context {
	watch := d.Watch
	if watch == nil {
		watch = p.e.cfg.Watch
	}
	ctx, release, err := seated(r, watch)(r)
	if err != nil {
		d.Refuse(w, r, err)
		p.over = true
		return nil
	}
	p.release = release
	p.e.cfg.Watching(1)
	return ctx
}

// lead renders events until there is one to begin with. It waits as long as the dialect
// holds the beginning, and else not at all.
func (p *play) lead(ctx context.Context, d *Dialect) error {
	up := make(chan time.Time)
	if d.Hold > 0 {
		defer time.AfterFunc(d.Hold, func() { close(up) }).Stop()
	} else {
		close(up)
	}
	for len(p.buf) == 0 && (p.reader.Pending() || d.Hold > 0 && !p.reader.Ended()) {
		items, err := p.reader.Next(ctx, up)
		if errors.Is(err, ErrClosed) && p.late(ctx) {
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(items) == 0 {
			return nil
		}
		for _, it := range items {
			if d.Opening != nil && len(p.buf) == 0 {
				if err := d.Opening(ctx, it); err != nil {
					return err
				}
			}
			frame, err := p.frame(ctx, it)
			if err != nil {
				return err
			}
			p.buf = append(p.buf, frame...)
		}
	}
	return nil
}

// late reports whether the log has something that the feed has not brought yet, once it
// is over for who waits for it: whoever waits for an answer looks a last time.
func (p *play) late(ctx context.Context) bool {
	if !p.answer {
		return false
	}
	p.answer = false
	return p.reader.missed(ctx)
}

// begin sends the headers with the first events if there are any.
func (p *play) begin() error {
	if len(p.buf) == 0 {
		return p.out.Begin()
	}
	p.out.Open()
	if err := p.flush(); err != nil {
		return err
	}
	return p.out.Flush()
}

// close ends what the stream has held, and says so if its client did not wait for the
// end.
func (p *play) close() {
	if p.release != nil {
		p.e.cfg.Watching(-1)
		p.release()
	}
	alone := p.reader.leave()
	if !p.over && (p.away || p.client.Err() != nil) {
		p.e.gone(p.client, alone, p.left)
	}
}

// gone ends the answer to a client that did not wait for it, and says so to whoever wants
// to know it, if that one was the last of its action's readers here. One that is sent
// away because the node stops has not gone.
func (e *Events) gone(client context.Context, alone bool, left func()) {
	wire.Drop(client)
	if left == nil || !alone {
		return
	}
	select {
	case <-e.feed.lastCall:
	case <-e.feed.ctx.Done():
	default:
		left()
	}
}
