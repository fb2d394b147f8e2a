package stream

import (
	"context"
	"errors"
	"io"
	"time"
)

// batch is how many bytes of frames go into one write.
const batch = 32 << 10

// run writes until the action has ended, its client is gone, or the stream may not
// be held open any longer.
func (p *play) run(ctx context.Context) {
	tick := time.NewTicker(p.e.cfg.KeepAlive)
	defer p.close()
	defer tick.Stop()
	for ticked := false; p.turn(ctx, ticked); {
		var err error
		if ticked, err = p.reader.wait(ctx, tick.C); err != nil {
			p.end(ctx, err)
			return
		}
	}
}

// turn writes what there is by now. more is false where the stream has ended.
func (p *play) turn(ctx context.Context, ticked bool) (more bool) {
	if ticked { // what the feed may have missed, it asks the log for itself
		p.away = p.out.Comment() != nil
		return !p.away
	}
	for p.out.Live() || p.reader.Pending() {
		items, err := p.reader.now(ctx)
		if err == nil && len(items) == 0 {
			return true
		}
		if err != nil { // EOF, or a client that has to resume elsewhere
			p.over = errors.Is(err, io.EOF)
			p.last()
			return false
		}
		more, err := p.send(ctx, items)
		if err != nil {
			p.away = true
			return false // too slow, or gone: the deadline stays and the server closes
		}
		if !more {
			p.last()
			return false
		}
	}
	p.over = p.reader.Ended()
	p.last()
	return false
}

// end is for a stream that is not waited for any longer, by err.
func (p *play) end(ctx context.Context, err error) {
	if errors.Is(err, ErrClosed) && p.late(ctx) {
		if !p.turn(ctx, false) {
			return
		}
	}
	p.last()
}

// last writes what a stream ends with that has to be resumed elsewhere. That the end was
// read does not mean that it was given.
func (p *play) last() {
	if p.cut != nil && !p.over && p.client.Err() == nil {
		if p.away = p.out.Write(p.cut()) != nil || p.out.Flush() != nil; p.away {
			return
		}
	}
	p.out.End()
}

// send writes events and flushes. more is false where the stream has to end because
// an event cannot be had.
func (p *play) send(ctx context.Context, items []*Item) (more bool, err error) {
	shown := false
	for i, it := range items {
		items[i] = nil // a long history is not held for as long as a slow client takes for it
		frame, err := p.frame(ctx, it)
		if err != nil {
			return false, p.flush() // the stream's end tells
		}
		shown = shown || len(frame) > 0
		if err := p.add(frame, i == len(items)-1); err != nil {
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

// add puts a frame with those before it, so that many small ones are few writes. The
// last of many is not put with others to come.
func (p *play) add(frame []byte, last bool) error {
	if len(p.buf)+len(frame) > batch {
		if err := p.flush(); err != nil {
			return err
		}
	}
	if len(frame) > batch/2 || last && len(p.buf) == 0 && len(frame) > 0 {
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
