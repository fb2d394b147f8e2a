// Package memlog is an action log in memory that behaves as the broker does:
// one sequence a stream, guards that may hold wildcards, reads by subject,
// records republished to whoever listens. It starts no goroutine and has no
// clock, so that a simulation can drive every step of it.
package memlog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// ErrNoStream says that no stream holds the subject of an append.
var ErrNoStream = errors.New("no stream holds this subject")

// Hooks stand at the outer edge of the log: faults are planted and crashes
// timed here. They run without any lock of the log and may call it.
type Hooks struct {
	// Before runs before an append. Its error is returned, nothing is stored.
	Before func(schemas.Append) error
	// After runs once the message is stored, before the caller hears of it.
	// Its error is returned instead of the sequence: an acknowledgement lost.
	After func(m schemas.Append, seq uint64) error
	// Read runs before Last, Newest, Range, Page and GetBlob. Its error is returned.
	Read func() error
	// Late is how many of a stream's newest messages Last, Range and Page do not show,
	// as a replica that is late would not. Last shows one where there is no other.
	Late func() int
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
	wakes   map[string]pending

	feed feed
}

// stream is one append-only sequence of messages, oldest first.
type stream struct {
	first   uint64 // the oldest sequence that can still be read
	last    uint64
	records []schemas.Record
	// byKey lists the places in records by the token of the action's id, so
	// that a guard with a wildcard need not read the whole stream.
	byKey map[string][]int
}

// New returns an empty log. now stamps the records and must not be nil.
func New(layout schemas.Layout, now func() time.Time, hooks Hooks) *Log {
	return &Log{
		layout: layout, now: now, hooks: hooks,
		streams: map[string]*stream{}, blobs: map[string][]byte{}, wakes: map[string]pending{},
	}
}

// Append stores one message, as ledger.Log says.
func (l *Log) Append(ctx context.Context, m schemas.Append) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("%w: %w", fault.ErrUnavailable, err)
	}
	if l.hooks.Before != nil {
		if err := l.hooks.Before(m); err != nil {
			return 0, err
		}
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

func (l *Log) store(m schemas.Append) (schemas.Record, error) {
	name, err := streamOf(m.Subject)
	if err != nil {
		return schemas.Record{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.streams[name]
	if s == nil {
		s = &stream{first: 1, byKey: map[string][]int{}}
		l.streams[name] = s
	}
	if m.Guarded {
		guard := m.Guard
		if guard == "" {
			guard = m.Subject
		}
		var last uint64
		if r, ok := s.newest(guard); ok {
			last = r.Seq
		}
		if last != m.Last {
			return schemas.Record{}, fault.ErrFenced
		}
	}
	s.last++
	r := schemas.Record{
		Stream: name, Subject: m.Subject, Seq: s.last, Time: l.now().UTC(),
		Data: append([]byte(nil), m.Data...),
	}
	if key := keyOf(m.Subject); key != "" {
		s.byKey[key] = append(s.byKey[key], len(s.records))
	}
	s.records = append(s.records, r)
	l.feed.queue(r)
	return r, nil
}

// Last returns the newest message under filter, as ledger.Log says.
func (l *Log) Last(ctx context.Context, stream, filter string) (schemas.Record, error) {
	if err := l.readable(ctx); err != nil {
		return schemas.Record{}, err
	}
	late := l.late()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.streams[stream]
	if s == nil {
		return schemas.Record{}, fault.ErrNotFound
	}
	r, ok := s.newest(filter)
	if !ok {
		return r, fault.ErrNotFound
	}
	if late > 0 {
		s.each(filter, func(shown schemas.Record) bool {
			if shown.Seq+late <= s.last {
				r = shown
			}
			return shown.Seq+late < s.last
		})
	}
	return r, nil
}

// Newest is Last that is not late.
func (l *Log) Newest(ctx context.Context, stream, filter string) (schemas.Record, error) {
	if err := l.readable(ctx); err != nil {
		return schemas.Record{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.streams[stream]; s != nil {
		if r, ok := s.newest(filter); ok {
			return r, nil
		}
	}
	return schemas.Record{}, fault.ErrNotFound
}

// late is how many messages are not to be shown.
func (l *Log) late() uint64 {
	if l.hooks.Late == nil {
		return 0
	}
	return uint64(max(l.hooks.Late(), 0))
}

// Range returns messages under filter from a sequence on, as ledger.Log says.
func (l *Log) Range(ctx context.Context, stream, filter string, from uint64, limit int) ([]schemas.Record, error) {
	if err := l.readable(ctx); err != nil {
		return nil, err
	}
	late := l.late()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.streams[stream]
	if s == nil {
		return nil, nil
	}
	var out []schemas.Record
	s.each(filter, func(r schemas.Record) bool {
		if r.Seq >= from && r.Seq+late <= s.last {
			out = append(out, r)
		}
		return len(out) < limit
	})
	return out, nil
}

// Next is the first message under filter from a sequence on. It is not late.
func (l *Log) Next(ctx context.Context, stream, filter string, from uint64) (found schemas.Record, err error) {
	if err := l.readable(ctx); err != nil {
		return schemas.Record{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err = fault.ErrNotFound
	if s := l.streams[stream]; s != nil {
		s.each(filter, func(r schemas.Record) bool {
			if r.Seq >= from {
				found, err = r, nil
			}
			return err != nil
		})
	}
	return found, err
}

// Page is Range that ends early, behind the record that makes it as large as size.
func (l *Log) Page(ctx context.Context, stream, filter string, from uint64, limit, size int) ([]schemas.Record, bool, error) {
	all, err := l.Range(ctx, stream, filter, from, limit+1)
	sum := 0
	for i := range all {
		if sum += len(all[i].Subject) + len(all[i].Data); i+1 == limit || sum >= size {
			return all[:i+1], i+1 < len(all), err
		}
	}
	return all, false, err
}

// Bounds are the oldest and the newest sequence of a stream. An empty stream
// has a first that is one past its last.
func (l *Log) Bounds(ctx context.Context, stream string) (first, last uint64, err error) {
	if err := l.readable(ctx); err != nil {
		return 0, 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.streams[stream]; s != nil {
		return s.first, s.last, nil
	}
	return 1, 0, nil
}

// Purge drops what lies below a sequence, as the end of the history does.
func (l *Log) Purge(stream string, below uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.streams[stream]; s != nil && below > s.first {
		s.first = min(below, s.last+1)
	}
}

// Accepting is always nil: memory is never full.
func (l *Log) Accepting() error { return nil }

// PutBlob stores data under its hash.
func (l *Log) PutBlob(ctx context.Context, _ string, data []byte) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("%w: %w", fault.ErrUnavailable, err)
	}
	if l.hooks.Before != nil {
		if err := l.hooks.Before(schemas.Append{Subject: schemas.BlobBucket, Data: data}); err != nil {
			return "", err
		}
	}
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.blobs[name]; !ok {
		l.blobs[name] = append([]byte(nil), data...)
	}
	return name, nil
}

// GetBlob returns what PutBlob stored.
func (l *Log) GetBlob(ctx context.Context, name string) ([]byte, error) {
	if err := l.readable(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	data, ok := l.blobs[name]
	if !ok {
		return nil, fault.ErrNotFound
	}
	return append([]byte(nil), data...), nil
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

func (l *Log) readable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", fault.ErrUnavailable, err)
	}
	if l.hooks.Read != nil {
		return l.hooks.Read()
	}
	return nil
}

// streamOf names the stream that holds a subject.
func streamOf(subject string) (string, error) {
	parts := strings.SplitN(subject, ".", 4)
	if len(parts) == 4 && parts[0] == "weir" {
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
	return "", ErrNoStream
}
