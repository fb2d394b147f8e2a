package stream

import (
	"bytes"
	"context"
	"errors"
	"io"
)

// inside has the stream of a reader that was opened begin in the middle of its first
// event, behind Part of the server-sent events that the event's frame is. The frame stays
// the one that all have.
func (r *Reader) inside(ctx context.Context, d *Dialect) error {
	for len(r.ready) == 0 && r.behind { // a replica is late, and has the event to come
		items, err := r.now(ctx)
		if errors.Is(err, io.EOF) {
			return ErrBeyond
		}
		if err != nil {
			return err
		}
		r.ready = items
	}
	if len(r.ready) == 0 {
		return ErrBeyond
	}
	first := r.ready[0]
	if first.Seq != d.After+1 || final(first.Event.Type) {
		return ErrBeyond
	}
	whole, err := d.Frame(ctx, first)
	if err != nil {
		return err
	}
	rest := whole
	for range d.Part {
		end := bytes.Index(rest, []byte("\n\n"))
		if end < 0 {
			return ErrBeyond
		}
		rest = rest[end+2:]
	}
	if len(rest) == 0 {
		return ErrBeyond
	}
	render := d.Frame
	d.Frame = func(ctx context.Context, it *Item) ([]byte, error) {
		if it == first {
			return rest, nil
		}
		return render(ctx, it)
	}
	return nil
}
