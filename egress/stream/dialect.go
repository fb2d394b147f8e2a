package stream

import (
	"context"
	"net/http"
	"time"

	"weir/schemas"
)

// Dialect is how a surface writes the events of one action. The positions in it
// are the log's, so that one dialect can go on where another was cut.
type Dialect struct {
	// Ref is the action.
	Ref schemas.Ref
	// After is the position to begin behind; 0: at the beginning.
	After uint64
	// Part is the number of server-sent events of the first event's frame that the client already
	// has. That event must be right after After and have more of them, or the position is
	// ErrBeyond. Only AnswerAs uses it, and not beside Pick.
	Part int
	// Frame renders an event; an empty frame is not shown. An event with several watchers is
	// rendered once, so the frame must not depend on the watcher. ctx ends with the watcher that
	// renders it, and for a terminal event with the feed. After an error, which is the log's, Frame
	// is called again. nil: Item.Frame.
	Frame func(ctx context.Context, it *Item) ([]byte, error)
	// Data is an event as an item of a page; one without is not shown. Only ServeAs uses it, like
	// Frame. nil: Item.JSON.
	Data func(ctx context.Context, it *Item) ([]byte, error)
	// Refuse answers with an error instead of a stream.
	Refuse func(w http.ResponseWriter, r *http.Request, err error)
	// Hold is how long the beginning of an answer waits for the first frame, so that an error in
	// its place can have a status of its own. After that a comment begins the stream. 0: no wait for
	// events that are not stored yet.
	Hold time.Duration
	// Opening checks the events before the first frame while the beginning waits. Its error goes to
	// Refuse, and there is no stream. nil: any event may be the first.
	Opening func(ctx context.Context, it *Item) error
	// OnAbandon is called, at most once, if the client has gone before the end and no other client
	// of this node reads the action or waits for it, but not if the node ended the stream.
	OnAbandon func()
	// Pick is the part of a frame that the reader of this stream receives; nil: all of it. It is
	// called once for each frame, in their order.
	Pick func(frame []byte) []byte
	// Answer: the stream is the answer to a request whose work ends. It continues while the node
	// drains, until EndWaits. For an ended one, a position after the end is ErrBeyond.
	Answer bool
	// Ended is all of a stream where everything was given before; nil: 204.
	Ended []byte
	// Interrupted is the last data of a stream that ends before its action, for a client that would
	// take the end for the answer's; nil: nothing.
	Interrupted func() []byte
}

// in is the event's frame in the one dialect beside its own, which one watcher makes for all. Who comes
// while it is made waits for it as long as ctx lasts, and has its error too, which is the log's. Where
// ctx ends for the one who makes it, another goes on.
func (it *Item) in(ctx context.Context, render func(context.Context, *Item) ([]byte, error)) ([]byte, error) {
	if frame := it.other.Load(); frame != nil {
		return *frame, nil // it is not written again
	}
	failures := it.failures.Load()
	select {
	case it.making <- struct{}{}:
		defer func() { <-it.making }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch frame := it.other.Load(); {
	case frame != nil:
		return *frame, nil
	case it.failures.Load() > failures:
		return nil, it.err
	}
	frame, err := render(ctx, it)
	if err == nil {
		it.other.Store(&frame)
	} else if ctx.Err() == nil {
		it.err = err
		it.failures.Add(1)
	}
	return frame, err
}
