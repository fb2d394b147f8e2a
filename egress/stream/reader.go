package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

// ErrBeyond says that the position to resume at lies past the end of the log.
var ErrBeyond = errors.New("the position is past the end of the stream")

// GoneError says that events after the position to resume at were dropped.
type GoneError struct {
	// Earliest is the oldest event that can still be read, 0 where none can.
	Earliest uint64
}

func (e *GoneError) Error() string { return "the events after this position were dropped" }

// Unwrap makes it a fault.ErrGone.
func (e *GoneError) Unwrap() error { return fault.ErrGone }

// chunk is how many records one read of the log asks for: with the largest
// records that lie inline, 16 MiB.
const chunk = 64

// Reader gives an action's events in order, each once, from any position on.
// It belongs to one goroutine.
type Reader struct {
	f *Feed
	w *watcher
	// seq is the position: every event up to it has been given.
	seq uint64
	n   int // the ordinal of the event at seq; 0 while unknown
	// behind says that the log has to be read before the feed is listened to.
	behind bool
	ended  bool // the terminal event has been given
	ready  []*Item
}

// Follow starts reading after a position; 0 is the beginning. It has read the
// first events when it returns, so that the caller can still answer with
// another status. Errors: fault.ErrNotFound, ErrBeyond, *GoneError, and the
// log's own. Close the reader when done.
func (f *Feed) Follow(ctx context.Context, ref schemas.Ref, after uint64) (*Reader, error) {
	r := &Reader{f: f, w: f.watch(ref, true), seq: after}
	if err := r.open(ctx, after); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Close ends the reader. It may be called twice.
func (r *Reader) Close() { r.f.leave(r.w) }

// Position is what to resume after.
func (r *Reader) Position() uint64 { return r.seq }

// Pending says that there is more to give without waiting.
func (r *Reader) Pending() bool { return len(r.ready) > 0 || r.behind }

// Ended says that nothing will ever follow: the terminal event lies at or
// before the position, and all that is known has been taken.
func (r *Reader) Ended() bool { return r.ended && !r.Pending() }

func (r *Reader) open(ctx context.Context, after uint64) error {
	items, err := r.page(ctx)
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return r.empty(ctx, after)
	}
	r.ready = items
	if items[0].Event.N <= 1 {
		return nil
	}
	if after > 0 {
		first, _, err := r.f.bounds(ctx, r.w.topic.stream)
		if err != nil || first <= after+1 {
			return err
		}
	}
	return &GoneError{Earliest: items[0].Seq}
}

// empty tells apart why there is nothing after a position: the action has
// ended, has nothing new yet, or does not exist.
func (r *Reader) empty(ctx context.Context, after uint64) error {
	t := r.w.topic
	newest, ok, err := r.f.last(ctx, t.stream, t.filter)
	switch {
	case err != nil:
		return err
	case !ok || after == 0:
		return r.f.missing(ctx, t.stream, after)
	case newest.Seq > after:
		r.behind = true
		return nil
	case newest.Seq < after:
		if err := r.f.within(ctx, t.stream, after); err != nil {
			return err
		}
	}
	if ev, err := ledger.Decode(newest.Data); err == nil {
		r.n = ev.N
	}
	_, r.ended, err = r.f.last(ctx, t.stream, r.f.cfg.Layout.Subject(t.ref, schemas.TailSettled))
	return err
}

// missing tells an action that never was from one whose history was dropped
// since the caller read it.
func (f *Feed) missing(ctx context.Context, stream string, after uint64) error {
	if after == 0 {
		return fault.ErrNotFound
	}
	first, _, err := f.bounds(ctx, stream)
	switch {
	case err != nil:
		return err
	case after < first:
		return &GoneError{}
	default:
		return fault.ErrNotFound
	}
}

func (f *Feed) within(ctx context.Context, stream string, after uint64) error {
	_, last, err := f.bounds(ctx, stream)
	if err == nil && after > last {
		return ErrBeyond
	}
	return err
}

func (f *Feed) bounds(ctx context.Context, stream string) (first, last uint64, err error) {
	err = f.read(ctx, func() (err error) {
		first, last, err = f.log.Bounds(ctx, stream)
		return err
	})
	return first, last, err
}

// page reads the next records from the log and moves the position past them.
func (r *Reader) page(ctx context.Context) ([]*Item, error) {
	t := r.w.topic
	var records []schemas.Record
	err := r.f.read(ctx, func() (err error) {
		records, err = r.f.log.Range(ctx, t.stream, t.filter, r.seq+1, chunk)
		return err
	})
	if err != nil {
		return nil, err
	}
	items := make([]*Item, 0, len(records))
	seq, n, ended, durable := r.seq, r.n, r.ended, uint64(0)
	for _, rec := range records {
		seq = rec.Seq
		_, tail, ok := split(rec.Subject)
		if !ok || tail == schemas.TailWake {
			continue
		}
		it := r.f.item(t.ref, tail, rec)
		if n > 0 && it.Event.N > 0 && it.Event.N != n+1 {
			return nil, &GoneError{Earliest: it.Seq}
		}
		n = it.Event.N
		ended = ended || final(it.Event.Type)
		if it.Event.Type.NeedsBarrier() {
			durable = it.Seq
		}
		items = append(items, it)
	}
	if err := r.f.Durable(ctx, t.stream, durable); err != nil {
		return nil, err
	}
	r.seq, r.n, r.ended, r.behind = seq, n, ended, len(records) == chunk
	return items, nil
}

// Next returns the next events, at least one. It returns none and no error
// when tick fires and the log has nothing new either. io.EOF follows the
// terminal event; a resolution is given too if it stands by then. Other
// errors: ctx's, ErrClosed, and *GoneError when the history ran away from a
// slow reader. While the log is away it waits.
func (r *Reader) Next(ctx context.Context, tick <-chan time.Time) ([]*Item, error) {
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
			continue
		case len(items) > 0:
			return items, nil
		case r.behind:
			continue
		case r.ended:
			return nil, io.EOF
		}
		select {
		case <-r.w.wake:
		case <-tick:
			if !r.missed(ctx) {
				return nil, nil
			}
			r.behind = true
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-r.f.draining:
			return nil, ErrClosed
		}
	}
}

// advance takes what the feed brought, or reads the log where that does not
// join up.
func (r *Reader) advance(ctx context.Context) ([]*Item, error) {
	if r.behind {
		return r.page(ctx)
	}
	items, behind := r.f.take(r.w)
	if behind {
		r.behind = true
		return nil, nil
	}
	kept := items[:0]
	for _, it := range items {
		switch {
		case it.Seq <= r.seq:
		case r.n == 0 || it.Event.N != r.n+1:
			r.behind = true // a gap, filled from the log with the rest
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
	return t == schemas.EventSettled || t == schemas.EventResolution
}

// missed asks the log whether there is more than the feed brought.
func (r *Reader) missed(ctx context.Context) bool {
	rec, ok, err := r.f.last(ctx, r.w.topic.stream, r.w.topic.filter)
	return err == nil && ok && rec.Seq > r.seq
}

// outlive waits a little after an error of the log, which may come back. It
// returns the errors that no waiting helps.
func (r *Reader) outlive(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, fault.ErrGone), errors.Is(err, ErrClosed):
		return err
	case !r.f.pause(ctx):
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return ErrClosed
	default:
		return nil
	}
}

// All gives the events one by one until the action has ended.
func (r *Reader) All(ctx context.Context) iter.Seq2[*Item, error] {
	return func(yield func(*Item, error) bool) {
		ticker := time.NewTicker(r.f.cfg.Recheck)
		defer ticker.Stop()
		for {
			items, err := r.Next(ctx, ticker.C)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("follow: %w", err))
				return
			}
			for _, it := range items {
				if !yield(it, nil) {
					return
				}
			}
		}
	}
}
