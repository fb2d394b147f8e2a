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
	reader, gone := e.feed.reader(ref, after, true, false), false
	defer func() {
		if alone := e.feed.unregister(reader.w); gone || client.Err() != nil {
			e.gone(client, alone, left)
		}
	}()
	if err := reader.open(client); err != nil {
		return err
	}
	for {
		items, err := reader.Next(client, nil)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(items) == 0 {
			return nil
		}
		for _, it := range items {
			err := fn(it)
			if errors.Is(err, ErrEnough) {
				return nil
			}
			if gone = err != nil; gone {
				return err
			}
		}
	}
}

// Writer writes an answer in pieces, each of which has a deadline as those of streams have.
func (e *Events) Writer(w http.ResponseWriter) *Writer { return NewWriter(w, e.cfg.WriteTimeout) }
