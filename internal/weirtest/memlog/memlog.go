// Package memlog is an action log in memory that behaves as the broker does: one sequence a
// stream, guards that may hold wildcards, reads by subject, records republished to listeners. It
// starts no goroutine and has no clock, so that a simulation can drive every step of it.
package memlog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/internal/broker/access"
	"weir/internal/fault"
	"weir/schemas"
)

// errNoStream says that no stream holds the subject of an append.
var errNoStream = errors.New("no stream holds this subject")

// Hooks stand at the outer edge of the log: faults are planted and crashes timed here. They run
// without any lock of the log and may call it. Each may be nil.
type Hooks struct {
	// Before runs before an append. Its error is returned, nothing is stored.
	Before func(schemas.Append) error
	// After runs once the message is stored, before the caller continues. Its error is returned
	// instead of the sequence: an acknowledgement lost.
	After func(m schemas.Append, seq uint64) error
	// Read runs before each read. Its error is returned.
	Read func() error
	// Late is how many of a stream's newest messages Last and Page do not show, like a
	// replica that lags. Last shows one where there is no other.
	Late func() int
	// Deaf reports whether the listeners of Live miss what is stored.
	Deaf func() bool
	// Barrier is what Barrier returns.
	Barrier func() error
}

// Log is the whole store. It is safe for concurrent use.
type Log struct {
	layout schemas.Layout
	now    func() time.Time
	hooks  Hooks

	mu      sync.Mutex
	streams map[string]*stream
	blobs   map[string][]byte
	spooled int // bodies so far, which names the next
	wakes   map[string]pending

	feed feed
}

// New returns an empty log. now stamps the records and must not be nil.
func New(layout schemas.Layout, now func() time.Time, hooks Hooks) *Log {
	return &Log{
		layout: layout, now: now, hooks: hooks,
		streams: map[string]*stream{}, blobs: map[string][]byte{}, wakes: map[string]pending{},
	}
}

// stream is one append-only sequence of messages, oldest first.
type stream struct {
	first   uint64 // the oldest sequence that can still be read
	last    uint64
	records []schemas.Record
	// places lists the places in records by the id of the action, so that a guard with a wildcard
	// need not read the whole stream; under "" it has all of them.
	places map[string][]int
}

// stream is the stream with a name, made where there is none. The caller holds mu.
func (l *Log) stream(name string) *stream {
	if l.streams[name] == nil {
		l.streams[name] = &stream{first: 1, places: map[string][]int{}}
	}
	return l.streams[name]
}

// idOf is the id of the action in a subject or filter of the log; empty: it names no single one.
func idOf(subject string) string {
	_, action, _ := schemas.Split(subject)
	_, rest, _ := strings.Cut(action, ".")
	_, id, _ := strings.Cut(rest, ".")
	if strings.ContainsAny(id, ".*>") {
		return ""
	}
	return id
}

// under iterates over the records that a filter covers, oldest first.
func (s *stream) under(filter string) iter.Seq[schemas.Record] {
	return func(yield func(schemas.Record) bool) {
		for _, i := range s.places[idOf(filter)] {
			if !s.covered(i, filter) {
				continue
			}
			if !yield(s.records[i]) {
				return
			}
		}
	}
}

// newest is the last record that a filter covers.
func (s *stream) newest(filter string) (schemas.Record, error) {
	for _, i := range slices.Backward(s.places[idOf(filter)]) {
		if s.covered(i, filter) {
			return s.records[i], nil
		}
	}
	return schemas.Record{}, fault.ErrNotFound
}

func (s *stream) covered(i int, filter string) bool {
	return s.records[i].Seq >= s.first && access.Covers(filter, s.records[i].Subject)
}

// Append stores one message, as ledger.Log says.
func (l *Log) Append(ctx context.Context, m schemas.Append) (uint64, error) {
	if err := l.before(ctx, m); err != nil {
		return 0, err
	}
	r, err := l.store(m)
	if err != nil {
		return 0, err
	}
	l.feed.drain()
	if l.hooks.After != nil {
		if err := l.hooks.After(m, r.Seq); err != nil {
			return 0, err
		}
	}
	return r.Seq, nil
}

func (l *Log) before(ctx context.Context, m schemas.Append) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", fault.ErrUnavailable, err)
	}
	if l.hooks.Before != nil {
		return l.hooks.Before(m)
	}
	return nil
}

func (l *Log) store(m schemas.Append) (schemas.Record, error) {
	name, err := streamOf(m.Subject)
	if err != nil {
		return schemas.Record{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stream(name)
	if m.Guarded {
		guard := m.Guard
		if guard == "" {
			guard = m.Subject
		}
		if r, _ := s.newest(guard); r.Seq != m.Last {
			return schemas.Record{}, fault.ErrFenced
		}
	}
	s.last++
	r := schemas.Record{Stream: name, Subject: m.Subject, Seq: s.last, Time: l.now().UTC(), Data: slices.Clone(m.Data)}
	s.places[""] = append(s.places[""], len(s.records))
	if id := idOf(m.Subject); id != "" {
		s.places[id] = append(s.places[id], len(s.records))
	}
	s.records = append(s.records, r)
	l.feed.queue(r)
	return r, nil
}

// read has a reader look at a stream.
func (l *Log) read(ctx context.Context, name string, look func(s *stream) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", fault.ErrUnavailable, err)
	}
	if l.hooks.Read != nil {
		if err := l.hooks.Read(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return look(l.stream(name))
}

// late is how many messages a lagging replica does not show.
func (l *Log) late() uint64 {
	if l.hooks.Late == nil {
		return 0
	}
	return uint64(max(l.hooks.Late(), 0))
}

// Last returns the newest message under filter, as ledger.Log says.
func (l *Log) Last(ctx context.Context, name, filter string) (r schemas.Record, err error) {
	late := l.late()
	err = l.read(ctx, name, func(s *stream) (err error) {
		if r, err = s.newest(filter); late == 0 {
			return err
		}
		for shown := range s.under(filter) {
			if shown.Seq+late <= s.last {
				r = shown
			}
		}
		return err
	})
	return r, err
}

// Newest is Last that is not late.
func (l *Log) Newest(ctx context.Context, name, filter string) (r schemas.Record, err error) {
	err = l.read(ctx, name, func(s *stream) (err error) {
		r, err = s.newest(filter)
		return err
	})
	return r, err
}

// Send stores a message without looking at its id: what keeps a record from being stored twice must
// not be the broker's window alone.
func (l *Log) Send(ctx context.Context, subject, _ string, data []byte) (wait func() error, err error) {
	_, err = l.Append(ctx, schemas.Append{Subject: subject, Data: data})
	return func() error { return nil }, err
}

// Next is the first message under filter from a sequence on. It is not late.
func (l *Log) Next(ctx context.Context, name, filter string, from uint64) (found schemas.Record, err error) {
	err = l.read(ctx, name, func(s *stream) error {
		for r := range s.under(filter) {
			if r.Seq >= from {
				found = r
				return nil
			}
		}
		return fault.ErrNotFound
	})
	return found, err
}

// Page returns up to limit messages under filter from a sequence on, and none after the one that
// reaches size; more reports that others follow.
func (l *Log) Page(ctx context.Context, name, filter string, from uint64, limit, size int) (page []schemas.Record, more bool, err error) {
	late := l.late()
	err = l.read(ctx, name, func(s *stream) error {
		for r := range s.under(filter) {
			if r.Seq < from || r.Seq+late > s.last {
				continue
			}
			if more = len(page) == limit || size <= 0; more {
				break
			}
			page = append(page, r)
			size -= len(r.Subject) + len(r.Data)
		}
		return nil
	})
	return page, more, err
}

// Bounds are the oldest and the newest sequence of a stream. An empty stream has a first that is
// one past its last.
func (l *Log) Bounds(ctx context.Context, name string) (first, last uint64, err error) {
	err = l.read(ctx, name, func(s *stream) error {
		first, last = s.first, s.last
		return nil
	})
	return first, last, err
}

// Purge drops what lies below a sequence, as the end of the history does.
func (l *Log) Purge(stream string, below uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stream(stream)
	s.first = max(s.first, min(below, s.last+1))
}

// Accepting is always nil: memory is never full.
func (l *Log) Accepting() error { return nil }

// PutBlob stores data under its hash.
func (l *Log) PutBlob(ctx context.Context, _ string, data []byte) (string, error) {
	if err := l.before(ctx, schemas.Append{Subject: schemas.BlobBucket, Data: data}); err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blobs[name] = slices.Clone(data)
	return name, nil
}

// Spool stores a body under no name.
func (l *Log) Spool(_ context.Context, body io.Reader) (schemas.Spooled, error) {
	data, err := io.ReadAll(body)
	if err != nil {
		return schemas.Spooled{}, err
	}
	sum := sha256.Sum256(data)
	l.mu.Lock()
	defer l.mu.Unlock()
	s := schemas.Spooled{Name: hex.EncodeToString(sum[:]), Size: len(data), Object: strconv.Itoa(l.spooled), Chunks: 1}
	l.spooled++
	l.blobs[s.Object] = data
	return s, nil
}

// Commit gives a spooled body its name.
func (l *Log) Commit(_ context.Context, _ string, s schemas.Spooled) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blobs[s.Name] = l.blobs[s.Object]
	delete(l.blobs, s.Object)
	return nil
}

// Discard drops a spooled body.
func (l *Log) Discard(_ context.Context, s schemas.Spooled) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.blobs, s.Object)
}

// Blobs are the names of the stored bodies, and of those without a name.
func (l *Log) Blobs() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.blobs))
}

// Keep reports whether a body is there.
func (l *Log) Keep(ctx context.Context, _, name string) error {
	_, err := l.GetBlob(ctx, name)
	return err
}

// OpenBlob is GetBlob of a body that is read as a stream.
func (l *Log) OpenBlob(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	data, err := l.GetBlob(ctx, name)
	return io.NopCloser(bytes.NewReader(data)), int64(len(data)), err
}

// GetBlob returns what PutBlob stored.
func (l *Log) GetBlob(ctx context.Context, name string) (data []byte, err error) {
	err = l.read(ctx, "", func(*stream) error {
		stored, ok := l.blobs[name]
		if !ok {
			return fault.ErrNotFound
		}
		data = append([]byte{}, stored...)
		return nil
	})
	return data, err
}

// Barrier returns at once: memory survives nothing, so there is nothing to wait for.
func (l *Log) Barrier(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if l.hooks.Barrier != nil {
		return l.hooks.Barrier()
	}
	return nil
}

// streamOf names the stream that holds a subject.
func streamOf(subject string) (string, error) {
	if parts := strings.SplitN(subject, ".", 4); len(parts) == 4 && parts[0] == "weir" {
		switch parts[1] {
		case "log", "sched":
			if p, err := strconv.Atoi(parts[2]); err == nil && p >= 0 {
				return schemas.LogStream(p), nil
			}
		case "evidence":
			return schemas.EvidenceStream, nil
		case "dead":
			return schemas.DeadStream, nil
		}
	}
	return "", errNoStream
}
