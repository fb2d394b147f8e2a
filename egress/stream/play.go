package stream

import (
	"context"
	"net/http"
	"time"

	"weir/internal/wire"
)

// play is one stream. It is all that a stream holds while nothing happens, beside
// what the server and the feed have of it.
type play struct {
	e      *Events
	reader *Reader
	render func(ctx context.Context, it *Item) ([]byte, error)
	out    Writer
	buf    []byte // frames that are to be written, while there are any
	// release is of what Watch has held.
	release func()
}

// batch is how many bytes of frames go into one write.
const batch = 32 << 10

// stream answers with what reader gives, and takes the reader over. Once it is
// begun, the rest is left to the server where it can be: a stream may be silent for
// hours, and a node has thousands of them.
func (e *Events) stream(w http.ResponseWriter, r *http.Request, reader *Reader, d Dialect) { //nolint:contextcheck // the request's own, which Watch may cut short
	p := &play{e: e, reader: reader, render: d.Frame, out: makeWriter(w, e.cfg.WriteTimeout)}
	ctx := p.start(w, r, d)
	if ctx == nil {
		return
	}
	wrapped := p.out
	p.out.unwrap() // what stands around the server's own writer is another request's by then
	if !wire.Later(r.Context(), func() { p.run(ctx) }) {
		p.out = wrapped
		p.run(ctx) //nolint:contextcheck // as above
	}
}

// start begins the answer. It returns until when the stream may go on, and nil
// where nothing is left to do.
func (p *play) start(w http.ResponseWriter, r *http.Request, d Dialect) context.Context {
	defer func() {
		if p.release == nil {
			p.reader.Close()
		}
	}()
	if d.Plain {
		if err := p.lead(r.Context()); err != nil {
			d.Refuse(w, r, explain(w, p.reader.w.topic.ref.ID, err))
			return nil
		}
	}
	if len(p.buf) == 0 && p.reader.Ended() {
		w.WriteHeader(http.StatusNoContent) // tells an EventSource to stop resuming
		return nil
	}
	if r.Method == http.MethodHead {
		Header(w.Header())
		w.WriteHeader(http.StatusOK)
		return nil
	}
	ctx, release, err := p.e.cfg.Watch(r)
	if err != nil {
		d.Refuse(w, r, err)
		return nil
	}
	p.release = release
	p.e.cfg.Watching(1)
	if p.begin() != nil {
		p.close()
		return nil
	}
	return ctx
}

// lead renders events until there is one to begin with, or none to be had at once.
func (p *play) lead(ctx context.Context) error {
	up := make(chan time.Time)
	close(up)
	for len(p.buf) == 0 && p.reader.Pending() {
		items, err := p.reader.Next(ctx, up)
		if err != nil {
			return err
		}
		for _, it := range items {
			frame, err := p.frame(ctx, it)
			if err != nil {
				return err
			}
			p.buf = append(p.buf, frame...)
		}
	}
	return nil
}

// run writes until the action has ended, its client is gone, or the stream may not
// be held open any longer. It only waits itself, so that a silent stream needs no
// more stack than that takes.
func (p *play) run(ctx context.Context) {
	tick := time.NewTicker(p.e.cfg.KeepAlive)
	defer p.close()
	defer tick.Stop()
	for ticked, more := false, true; more; {
		wire.Aside(func() { more = p.turn(ctx, ticked) })
		if !more {
			return
		}
		var err error
		if ticked, err = p.reader.wait(ctx, tick.C); err != nil {
			p.out.End() // the client has to resume elsewhere
			return
		}
	}
}

// turn writes what there is by now. more is false where the stream has ended.
func (p *play) turn(ctx context.Context, ticked bool) (more bool) {
	if ticked { // what the feed may have missed, it asks the log for itself
		return p.out.Comment() == nil
	}
	for p.out.Live() || p.reader.Pending() {
		items, err := p.reader.now(ctx)
		if err == nil && len(items) == 0 {
			return true
		}
		if err != nil {
			break // the end, or a client that has to resume elsewhere
		}
		more, err := p.send(ctx, items)
		if err != nil {
			return false // too slow, or gone: the deadline stays and the server closes
		}
		if !more {
			break
		}
	}
	p.out.End()
	return false
}

func (p *play) close() {
	p.e.cfg.Watching(-1)
	p.release()
	p.reader.Close()
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

// send writes events and flushes. more is false where the stream has to end because
// an event cannot be had.
func (p *play) send(ctx context.Context, items []*Item) (more bool, err error) {
	shown := false
	for i, it := range items {
		items[i] = nil // a long history is not held for as long as a slow client takes for it
		frame, err := p.frame(ctx, it)
		if err != nil {
			return false, nil //nolint:nilerr // told by the stream's end
		}
		shown = shown || len(frame) > 0
		if err := p.add(frame); err != nil {
			return false, err
		}
	}
	if !shown {
		return true, nil
	}
	if err := p.flush(); err != nil {
		return false, err
	}
	return true, p.out.Flush()
}

// frame renders an event, and waits for a log that is away. Only what ended the
// action may have to be read from there, which a feed that is closed must not wait for.
func (p *play) frame(ctx context.Context, it *Item) ([]byte, error) {
	reading := ctx
	if final(it.Event.Type) {
		var done func()
		reading, done = p.e.feed.until(ctx)
		defer done()
	}
	for {
		frame, err := p.render(reading, it)
		if err == nil {
			return frame, nil
		}
		if err := p.reader.outlive(ctx, err); err != nil {
			return nil, err
		}
	}
}

// add puts a frame with those before it, so that many small ones are few writes.
func (p *play) add(frame []byte) error {
	if len(p.buf)+len(frame) > batch {
		if err := p.flush(); err != nil {
			return err
		}
	}
	if len(frame) > batch/2 {
		return p.out.Write(frame)
	}
	p.buf = append(p.buf, frame...)
	return nil
}

// flush writes the frames that were put aside. A silent stream keeps no buffer.
func (p *play) flush() error {
	if len(p.buf) == 0 {
		return nil
	}
	err := p.out.Write(p.buf)
	p.buf = nil
	return err
}
