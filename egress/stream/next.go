package stream

import (
	"context"
	"errors"
	"io"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// Next returns the next events, at least one. It returns none and no error when tick fires and the
// log has nothing new. io.EOF follows the terminal event, and a resolution that is known by then.
// Other errors: ctx's, ErrClosed, and *GoneError if the history was dropped before a slow reader
// got it. While the log cannot be reached it waits.
func (r *Reader) Next(ctx context.Context, tick <-chan time.Time) ([]*Item, error) {
	for {
		items, err := r.now(ctx)
		if len(items) > 0 || err != nil {
			return items, err
		}
		ticked, err := r.wait(ctx, tick)
		if err != nil || (ticked && !r.missed(ctx)) {
			return nil, err
		}
	}
}

// now returns the next events, or none where there are none yet.
func (r *Reader) now(ctx context.Context) ([]*Item, error) {
	for {
		if items := r.ready; len(items) > 0 {
			r.ready = nil
			return items, nil
		}
		items, err := r.advance(ctx)
		switch {
		case err != nil:
			if err := r.outlive(ctx, err); err != nil {
				return nil, err
			}
		case len(items) > 0:
			return items, nil
		case r.behind:
			if r.late > 0 {
				if err := r.f.pause(ctx, catchUp); err != nil {
					return nil, err
				}
			}
		case r.ended:
			return nil, io.EOF
		default:
			return nil, nil
		}
	}
}

// wait returns when there may be more, or with ticked when tick fires before.
func (r *Reader) wait(ctx context.Context, tick <-chan time.Time) (ticked bool, err error) {
	select {
	case <-r.w.wake:
		return false, nil
	case <-tick:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	case <-r.ends:
		if r.answer && !r.looked {
			if r.looked = true; r.missed(ctx) {
				return false, nil
			}
		}
		return false, ErrClosed
	}
}

// advance takes what the feed brought, or reads the log where that does not
// join up.
func (r *Reader) advance(ctx context.Context) ([]*Item, error) {
	if r.behind {
		return r.page(ctx)
	}
	items, behind := r.f.drain(r.w, r.seq)
	if behind {
		r.behind = true
		return nil, nil
	}
	kept := items[:0]
	for _, it := range items {
		switch {
		case it.Seq <= r.seq:
		case r.n == 0 || it.Event.N != r.n+1:
			r.expect(items[len(items)-1].Seq) // a gap, filled from the log with the rest
			return kept, nil
		default:
			r.seq, r.n = it.Seq, it.Event.N
			r.ended = r.ended || final(it.Event.Type)
			kept = append(kept, it)
		}
	}
	return kept, nil
}

// final says that an action has ended once it has such an event.
func final(t schemas.EventType) bool {
	return t == schemas.EventSettled || t == schemas.EventResolution || t == schemas.EventSuperseded
}

// missed reads from the log whether there is more than the feed delivered.
func (r *Reader) missed(ctx context.Context) bool {
	rec, err := r.f.last(ctx, r.w.topic.stream, r.w.topic.filter)
	if err != nil || rec.Seq <= r.seq {
		return false
	}
	r.expect(rec.Seq)
	return true
}

// outlive waits a little after an error of the log that may pass. It returns the errors that
// waiting cannot cure.
func (r *Reader) outlive(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, fault.ErrGone), errors.Is(err, ErrClosed):
		return err
	default:
		return r.f.pause(ctx, retryPause)
	}
}
