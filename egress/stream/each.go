package stream

import (
	"context"
	"errors"
	"io"
	"net/http"

	"weir/schemas"
)

// ErrEnough ends Each without a failure.
var ErrEnough = errors.New("no more events are wanted")

// Each gives the events of an action after a position to fn, in order and as they come, until the
// action has ended or fn returns an error. It is for answers: it goes on while the node drains, until
// EndWaits. Errors are those of Reader.Next, ErrClosed and fn's own but for ErrEnough; any of fn's
// stands for a client that takes no more. If the client has gone, left is called as Dialect.Left is.
func (e *Events) Each(client context.Context, ref schemas.Ref, after uint64, left func(), fn func(it *Item) error) error {
	reader := e.feed.reader(ref, after, true, false)
	gone, err := reader.each(client, fn)
	if alone := e.feed.unregister(reader.w); gone || client.Err() != nil {
		e.gone(client, alone, left)
	}
	return err
}

func (r *Reader) each(client context.Context, fn func(it *Item) error) (gone bool, err error) {
	if err := r.open(client); err != nil {
		return false, err
	}
	for {
		items, err := r.Next(client, nil)
		switch {
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, err
		}
		for _, it := range items {
			switch err := fn(it); {
			case errors.Is(err, ErrEnough):
				return false, nil
			case err != nil:
				return true, err
			}
		}
	}
}

// Writer writes an answer in pieces, each of which has a deadline as those of streams have.
func (e *Events) Writer(w http.ResponseWriter) *Writer { return NewWriter(w, e.cfg.WriteTimeout) }
