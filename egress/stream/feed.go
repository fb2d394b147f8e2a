// Package stream delivers an action's events to its watchers. A node has one live feed, and no
// consumer, goroutine or subscription for each watcher: history is read from the log, new events
// come from the feed, and the two are joined by sequence and ordinal.
package stream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// ErrClosed means that the node stops watching: the action continues, and its watchers resume on
// another node or later.
var ErrClosed error = fault.New(schemas.Unavailable, "this node is shutting down; try again")

const (
	// recheck is how often the log is read for events that a watcher has missed, so that no lost
	// message can hang it. The watcher reads, or the feed reads once for an action's watchers.
	recheck = 15 * time.Second
	// retryPause follows a failure of the log or of the barrier.
	retryPause = time.Second
	// readsAtOnce bounds the reads of the log when many watchers catch up together.
	readsAtOnce = 16
)

// Log is what is read of the log.
type Log interface {
	// Last may be late: not have seen yet what others know to be stored. Newest and Next are not.
	Last(ctx context.Context, stream, filter string) (schemas.Record, error)
	Newest(ctx context.Context, stream, filter string) (schemas.Record, error)
	Next(ctx context.Context, stream, filter string, from uint64) (schemas.Record, error)
	// Page returns up to limit records from a sequence on, and none after the one that reaches size;
	// more reports that others follow.
	Page(ctx context.Context, stream, filter string, from uint64, limit, size int) (records []schemas.Record, more bool, err error)
	Bounds(ctx context.Context, stream string) (first, last uint64, err error)
}

// Live is a subscription to records as they are stored. fn is called from one goroutine at a time,
// in the order of each stream; lost reports that records may have been missed. A call that is
// running when stop returns does no harm.
type Live interface {
	Live(subject string, fn func(schemas.Record), lost func()) (stop func(), err error)
}

// Durable waits until a record that was read may be shown; a Feed does.
type Durable interface {
	Durable(ctx context.Context, stream string, seq uint64) error
}

// Config shapes a feed. Zero fields take the default that is named.
type Config struct {
	Layout schemas.Layout // required
	// Barrier returns once everything stored before the call is as durable as promised. Nil: stored
	// records may be shown at once.
	Barrier func(ctx context.Context) error
	// Reserved reports whether a record that needs no barrier by itself may be shown without one:
	// its sequence is never reused, so a reader that resumes after it misses nothing. It must not
	// block. Nil: all may.
	Reserved func(stream string, seq uint64) bool
	// Result turns the document in a terminal event into the form that its kind shows.
	// Nil shows it as it is stored.
	Result func(ref schemas.Ref, s *schemas.Settled, doc json.RawMessage) json.RawMessage
	// Part turns the data of a delta into the form its kind shows; nil shows it as it is stored.
	Part func(ref schemas.Ref, data json.RawMessage) json.RawMessage
	// HeldEvents bounds what may wait for a barrier; over it, all watchers
	// read the log instead. Default 65536.
	HeldEvents int
	Logger     *slog.Logger // default: discards
	HTTP       HTTP
}

func (c Config) withDefaults() Config {
	c.HTTP = c.HTTP.withDefaults()
	c.HeldEvents = cmp.Or(c.HeldEvents, 1<<16)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Result == nil {
		c.Result = func(_ schemas.Ref, _ *schemas.Settled, doc json.RawMessage) json.RawMessage { return doc }
	}
	if c.Part == nil {
		c.Part = func(_ schemas.Ref, data json.RawMessage) json.RawMessage { return data }
	}
	if c.Reserved == nil {
		c.Reserved = func(string, uint64) bool { return true }
	}
	return c
}

// Feed is a node's one live subscription and its watchers. It serves the events of an action: as a
// stream, as pages, or as a page that is waited for. It is safe for concurrent use.
type Feed struct {
	log   Log
	cfg   Config
	stop  func()
	reads chan struct{} // holds the running reads of the log

	// ctx ends with Close. Before that, waits ends when waiting callers must check a last time, and
	// streams when streams must end.
	ctx, waits, streams          context.Context //nolint:containedctx // the feed's own
	cancel, endWaits, endStreams context.CancelFunc
	done                         sync.WaitGroup

	mu      sync.Mutex
	topics  map[string]*topic
	held    []*Item // arrived, not yet released; in order
	notify  chan struct{}
	durable map[string]uint64 // by stream: the last sequence known to be durable
}

// Open subscribes and returns the feed. Close ends it.
func Open(log Log, live Live, cfg Config) (*Feed, error) {
	if cfg.Layout.Partitions < 1 {
		return nil, errors.New("the feed needs the layout of the log")
	}
	cfg = cfg.withDefaults()
	f := &Feed{
		log: log, cfg: cfg,
		reads: make(chan struct{}, readsAtOnce), notify: make(chan struct{}, 1),
		topics: map[string]*topic{}, durable: map[string]uint64{},
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.waits, f.endWaits = context.WithCancel(f.ctx)
	f.streams, f.endStreams = context.WithCancel(f.ctx)
	stop, err := live.Live(schemas.LiveLog+".>", f.arrived, f.lost)
	if err != nil {
		f.cancel()
		return nil, fmt.Errorf("live feed: %w", err)
	}
	f.stop = stop
	f.done.Go(f.release)
	f.done.Go(f.sweep)
	return f, nil
}

// EndStreams ends everything that would continue until its client leaves: streams and long polls.
// Callers that wait for one action's end continue to wait, and so do streams that are an answer;
// see Dialect.Answer. A draining server calls it first, then lets its worker finish, then calls
// EndWaits, and Close after all answers. It may be called twice.
func (f *Feed) EndStreams() { f.endStreams() }

// EndWaits makes callers that wait for an action's end read the log a last time, and return
// ErrClosed if it has not ended. It may be called twice.
func (f *Feed) EndWaits() { f.endWaits() }

// Close ends the subscription, and returns ErrClosed to every watcher. It may be called twice.
func (f *Feed) Close() {
	f.cancel()
	f.stop()
	f.done.Wait()
}

// Ready returns ErrClosed once streams must end.
func (f *Feed) Ready(context.Context) error {
	if f.streams.Err() != nil {
		return ErrClosed
	}
	return nil
}

// Draining is closed when streams must end.
func (f *Feed) Draining() <-chan struct{} { return f.streams.Done() }

// arrived takes one record from the subscription. It never blocks on a watcher, and does not even
// decode the records of actions without watchers.
func (f *Feed) arrived(rec schemas.Record) {
	if rec.Notifies() {
		return
	}
	_, key, _ := schemas.Split(rec.Subject)
	f.mu.Lock()
	t := f.topics[key]
	if t != nil && rec.Delta() {
		t.begin()
	}
	// For callers that only wait for the end nothing else is decoded, and no barrier holds it.
	wanted := t != nil && (len(t.readers) > 0 || rec.Ends())
	f.mu.Unlock()
	if !wanted {
		return
	}
	it := f.item(t, rec)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cfg.Barrier == nil || (t.held == 0 && !it.Event.NeedsBarrier() && f.cfg.Reserved(t.stream, it.Seq)) {
		t.deliver(it)
		return
	}
	f.hold(it)
}

// lost makes every watcher read the log: records may have passed it by.
func (f *Feed) lost() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.allBehind()
}

func (f *Feed) allBehind() {
	for _, t := range f.topics {
		t.losses++
		t.notify()
		for _, r := range t.readers {
			r.miss(0)
		}
	}
}

// read runs one read of the log, of which only so many go on at a time. Close ends the wait for one.
func read[T any](ctx context.Context, f *Feed, do func() (T, error)) (none T, err error) {
	if f.ctx.Err() != nil {
		return none, ErrClosed
	}
	select {
	case f.reads <- struct{}{}:
	case <-ctx.Done():
		return none, ctx.Err()
	case <-f.ctx.Done():
		return none, ErrClosed
	}
	defer func() { <-f.reads }()
	return do()
}

// last is log.Last under read.
func (f *Feed) last(ctx context.Context, stream, filter string) (schemas.Record, error) {
	return read(ctx, f, func() (schemas.Record, error) { return f.log.Last(ctx, stream, filter) })
}

// newest is log.Newest under read.
func (f *Feed) newest(ctx context.Context, stream, filter string) (schemas.Record, error) {
	return read(ctx, f, func() (schemas.Record, error) { return f.log.Newest(ctx, stream, filter) })
}

// end is the newest event of an action, and ok if that is the terminal one, which is the last of its
// section. That there is none is certain.
func (f *Feed) end(ctx context.Context, t *topic) (rec schemas.Record, ok bool, err error) {
	rec, err = f.newest(ctx, t.stream, f.cfg.Layout.Subject(t.ref, schemas.SectionEvent))
	if errors.Is(err, fault.ErrNotFound) {
		return rec, false, nil
	}
	return rec, err == nil && rec.Ends(), err
}

// first is the sequence of a stream's oldest record, and last that of its newest.
func (f *Feed) bounds(ctx context.Context, stream string) (first, last uint64, err error) {
	first, err = read(ctx, f, func() (first uint64, err error) {
		first, last, err = f.log.Bounds(ctx, stream)
		return first, err
	})
	return first, last, err
}

// outlive waits a little after an error of the log that may pass. It returns the errors that
// waiting cannot cure.
func (f *Feed) outlive(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, fault.ErrGone), errors.Is(err, ErrClosed):
		return err
	}
	select {
	case <-time.After(retryPause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-f.ctx.Done():
		return ErrClosed
	}
}
