package stream

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

// ErrBeyond means that the position to resume at is past the end of the log.
var ErrBeyond = Invalid("the position is past the end of the stream; resume at an id that this stream gave, or begin it without one")

// dropped is a fault.ErrGone: events after the position to resume at were dropped. earliest is the
// oldest event that can still be read, 0 where none can.
func dropped(earliest uint64) error {
	p := &problem.Error{Cause: fault.ErrGone, Problem: schemas.Problem{
		Code:   schemas.StreamGone,
		Detail: "events after this position were dropped; resume just before earliest_id, or read the action's status",
	}}
	if earliest > 0 {
		p.EarliestID = strconv.FormatUint(earliest, 10)
	}
	return p
}

// A read of the log gets few records at first, so that the first event arrives at once; then more
// and more, because on each read the log counts the remaining records. A page ends with the record
// that fills it.
const (
	firstPage  = 64
	growth     = 4
	widestPage = 4096
	pageSize   = 512 << 10
)

// Reader gives an action's events in order, each once, from any position on.
// It belongs to one goroutine, and costs a few hundred bytes while it waits.
type Reader struct {
	f     *Feed
	topic *topic
	wake  chan struct{} // holds one signal: there may be more

	// The feed's lock guards these. missed means that the log must be read: the buffer overflowed, or
	// records may have been missed. newest is how far the log is known to go then.
	at     int    // its place in topic.readers; -1: it is not there
	given  uint64 // how far it has got, as of when it looked last
	buf    []*Item
	size   int
	missed bool
	newest uint64

	// seq is the position: every event up to it has been given.
	seq uint64
	n   int // the ordinal of the event at seq; 0 while unknown
	// behind means that the log must be read before the feed's events are used.
	behind bool
	// known is how far the log is known to go. A replica that is late shows less.
	known uint64
	limit int  // how many records the next page may have; 0: the first
	ended bool // the terminal event has been given
	ready []*Item
	// ends is closed when waiting must end. An answer reads the log once more then, for events that
	// the feed has not delivered: last is that read.
	ends         <-chan struct{}
	answer, last bool
}

// Follow starts reading after a position; 0 is the beginning. It has read the
// first events when it returns, so that the caller can still answer with
// another status. Errors: fault.ErrNotFound, fault.ErrGone, ErrBeyond, and the
// log's own. Close the reader when done.
func (f *Feed) Follow(ctx context.Context, ref schemas.Ref, after uint64) (*Reader, error) {
	return f.follow(ctx, ref, after, false)
}

func (f *Feed) follow(ctx context.Context, ref schemas.Ref, after uint64, peek bool) (*Reader, error) {
	r := f.reader(ref, after, false, peek)
	if err := r.open(ctx); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// reader is one that is still to be opened. It receives all records stored from now on, so the log must
// be read after this and not before. An answer continues while the node drains, until EndWaits; a
// position after the end of its action is ErrBeyond. With peek it takes what there is and waits for
// nothing, so that the topic does not know it.
func (f *Feed) reader(ref schemas.Ref, after uint64, answer, peek bool) *Reader {
	r := &Reader{f: f, wake: make(chan struct{}, 1), at: -1, seq: after, ends: f.streams.Done(), answer: answer}
	if answer {
		r.ends = f.waits.Done()
	}
	filter := f.cfg.Layout.All(ref)
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.topic(ref, filter)
	if r.topic = t; !peek {
		f.topics[t.key] = t
		r.at = len(t.readers)
		t.readers = append(t.readers, r)
	}
	return r
}

// Close ends the reader. alone reports that this node has no other caller that reads the action or waits
// for it; of concurrent leavers exactly one gets it. It may be called again, and then never reports that.
func (r *Reader) Close() (alone bool) {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	if r.at < 0 {
		return false
	}
	t, end := r.topic, len(r.topic.readers)-1
	t.readers[r.at] = t.readers[end]
	t.readers[r.at].at = r.at
	t.readers[end] = nil
	t.readers = t.readers[:end]
	r.at, r.buf = -1, nil
	return r.f.drop(t)
}

// Position is what to resume after.
func (r *Reader) Position() uint64 { return r.seq }

// Pending says that there is more to give without waiting.
func (r *Reader) Pending() bool { return len(r.ready) > 0 || r.behind }

// Ended reports that no event will follow: the terminal event is at or before the position, and all
// known events were taken.
func (r *Reader) Ended() bool { return r.ended && !r.Pending() }

// Recheck has Next read the log before it waits, for what the feed may have missed.
func (r *Reader) Recheck() { r.behind = true }

// Next returns the next events, at least one. It returns none and no error when tick fires before
// there are any. io.EOF follows the terminal event, and a resolution that is known by then. Other
// errors: ctx's, ErrClosed, and fault.ErrGone if the history was dropped before a slow reader got it.
// While the log cannot be reached it waits.
func (r *Reader) Next(ctx context.Context, tick <-chan time.Time) ([]*Item, error) {
	for {
		items, err := r.advance(ctx)
		switch {
		case err != nil && r.last && ctx.Err() == nil && !errors.Is(err, fault.ErrGone):
			return nil, ErrClosed
		case err != nil:
			if err = r.f.outlive(ctx, err); err != nil {
				return nil, err
			}
		case len(items) > 0:
			return items, nil
		case r.behind:
		case r.ended:
			return nil, io.EOF
		default:
			select {
			case <-r.wake:
			case <-tick:
				return items, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-r.ends:
				if !r.answer {
					return nil, ErrClosed
				}
				r.answer, r.last, r.behind = false, true, true
			}
		}
	}
}

// advance takes what the feed brought, or reads the log where that does not join up.
func (r *Reader) advance(ctx context.Context) ([]*Item, error) {
	if items := r.ready; len(items) > 0 {
		r.ready = nil
		return items, nil
	}
	if r.behind {
		return r.page(ctx)
	}
	r.f.mu.Lock()
	items := r.buf
	if r.missed { // the log is read first, up to what is known of it
		r.expect(r.newest)
	}
	r.buf, r.size, r.missed, r.newest, r.given = nil, 0, false, 0, r.seq
	r.f.mu.Unlock()
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

// expect makes the reader read the log until it has shown a known record.
func (r *Reader) expect(seq uint64) { r.behind, r.known = true, max(r.known, seq) }

// open reads the first events, or finds out why there are none.
func (r *Reader) open(ctx context.Context) error {
	after := r.seq
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
		first, _, err := r.f.bounds(ctx, r.topic.stream)
		if err != nil || first <= after+1 {
			return err
		}
	}
	return dropped(items[0].Seq)
}

// empty returns why there is nothing after a position: the action has ended, has nothing new yet,
// or does not exist.
func (r *Reader) empty(ctx context.Context, after uint64) error {
	t := r.topic
	_, ended, err := r.f.end(ctx, t)
	if err != nil {
		return err
	}
	newest, err := r.f.newest(ctx, t.stream, t.filter)
	switch {
	case errors.Is(err, fault.ErrNotFound), err == nil && newest.Seq <= r.seq && after == 0:
		return r.f.missing(ctx, t.stream, after)
	case err != nil:
		return err
	case newest.Seq > r.seq:
		r.expect(newest.Seq)
		return nil
	case newest.Seq < after && ended && r.answer:
		return ErrBeyond
	case newest.Seq < after:
		if _, last, err := r.f.bounds(ctx, t.stream); err != nil || after > last {
			return cmp.Or(err, ErrBeyond)
		}
	}
	if ev, err := ledger.Decode(newest.Data); err == nil && newest.Seq == after {
		r.n = ev.N
	}
	r.ended = ended
	return nil
}

// missing distinguishes an action that never existed from one whose history was dropped since the
// caller read it.
func (f *Feed) missing(ctx context.Context, stream string, after uint64) error {
	if after == 0 {
		return fault.ErrNotFound
	}
	first, _, err := f.bounds(ctx, stream)
	if err == nil && after < first {
		return dropped(0)
	}
	return cmp.Or(err, fault.ErrNotFound)
}

// page reads the next records from the log and moves the position past them.
func (r *Reader) page(ctx context.Context) ([]*Item, error) {
	t := r.topic
	limit := max(r.limit, firstPage)
	records, more, err := r.records(ctx, limit)
	if err != nil {
		return nil, err
	}
	items := make([]*Item, 0, len(records))
	seq, n, ended, durable := r.seq, r.n, r.ended, uint64(0)
	for _, rec := range records {
		seq = rec.Seq
		if rec.Notifies() {
			continue
		}
		it := r.f.item(t, rec)
		if n > 0 && it.Event.N > 0 && it.Event.N != n+1 {
			return nil, dropped(it.Seq)
		}
		n = it.Event.N
		ended = ended || final(it.Event.Type)
		if it.Event.NeedsBarrier() {
			durable = it.Seq
		}
		items = append(items, it)
	}
	if seq > r.seq && !r.f.cfg.Reserved(t.stream, seq) {
		durable = seq // a position is shown too
	}
	if err := r.f.Durable(ctx, t.stream, durable); err != nil {
		return nil, err
	}
	r.seq, r.n, r.ended, r.behind = seq, n, ended, more || seq < r.known
	r.limit = min(limit*growth, widestPage)
	return items, nil
}

// records are those after the position. A late replica does not show all that are known: then the
// leader shows the next one, or that they were dropped.
func (r *Reader) records(ctx context.Context, limit int) (records []schemas.Record, more bool, err error) {
	t := r.topic
	records, err = read(ctx, r.f, func() (page []schemas.Record, err error) {
		page, more, err = r.f.log.Page(ctx, t.stream, t.filter, r.seq+1, limit, pageSize)
		if err != nil || len(page) > 0 || r.known <= r.seq {
			return page, err
		}
		next, err := r.f.log.Next(ctx, t.stream, t.filter, r.seq+1)
		if errors.Is(err, fault.ErrNotFound) {
			r.known = 0
			return page, nil
		}
		return []schemas.Record{next}, err
	})
	return records, more && len(records) > 0, err
}
