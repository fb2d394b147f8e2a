// Package shelf is a bucket in memory, for tests of what keeps its state in one.
package shelf

import (
	"context"
	"slices"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// Shelf is a store in memory. Whoever watches it hears of a write before Put returns.
type Shelf struct {
	// Reads runs before each Get and Next; its error is theirs.
	Reads func() error
	// Keep is how many writes of a key are kept; default one.
	Keep int

	mu       sync.Mutex
	hook     func() (err error, stored bool)
	last     uint64
	records  []schemas.Record // oldest first
	puts     int
	down     bool
	watchers map[int]func(schemas.Record)
}

// New returns an empty one.
func New() *Shelf { return &Shelf{watchers: map[int]func(schemas.Record){}} }

// Hook has f run before each Put. Its error is Put's, whether the value is stored all the same or not.
func (s *Shelf) Hook(f func() (err error, stored bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = f
}

// Put stores a value if the key's newest write is last.
func (s *Shelf) Put(_ context.Context, key string, value []byte, last uint64) (seq uint64, told error) {
	s.mu.Lock()
	hook := s.hook
	s.mu.Unlock()
	if hook != nil {
		var stored bool
		if told, stored = hook(); told != nil && !stored {
			return 0, told
		}
	}
	s.mu.Lock()
	newest, _ := s.find(key, 0, true)
	switch {
	case s.down:
		s.mu.Unlock()
		return 0, fault.ErrUnavailable
	case newest.Seq != last:
		s.mu.Unlock()
		return 0, fault.ErrFenced
	}
	s.puts++
	r := s.store(key, value)
	var tell []func(schemas.Record)
	for _, f := range s.watchers {
		tell = append(tell, f)
	}
	s.mu.Unlock()
	for _, f := range tell {
		f(r)
	}
	return r.Seq, told
}

// store appends a record, and drops the key's oldest where there are too many.
func (s *Shelf) store(key string, value []byte) schemas.Record {
	s.last++
	r := schemas.Record{Subject: key, Seq: s.last, Time: time.Now().UTC(), Data: slices.Clone(value)}
	if all := s.of(key); len(all) >= max(s.Keep, 1) {
		s.records = slices.DeleteFunc(s.records, func(r schemas.Record) bool { return r.Seq == all[0].Seq })
	}
	s.records = append(s.records, r)
	return r
}

// of are the writes of a key.
func (s *Shelf) of(key string) []schemas.Record {
	return slices.DeleteFunc(slices.Clone(s.records), func(r schemas.Record) bool { return r.Subject != key })
}

// Overwrite stores a value whatever stands there, as another program does. It is no Put.
func (s *Shelf) Overwrite(key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(key, []byte(value))
}

// find is the key's first record behind a write, or its newest.
func (s *Shelf) find(key string, after uint64, newest bool) (found schemas.Record, ok bool) {
	for _, r := range s.records {
		if r.Subject == key && r.Seq > after {
			if found, ok = r, true; !newest {
				break
			}
		}
	}
	return found, ok
}

func (s *Shelf) read(key string, after uint64, newest bool) (schemas.Record, error) {
	if s.Reads != nil {
		if err := s.Reads(); err != nil {
			return schemas.Record{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.find(key, after, newest)
	switch {
	case s.down:
		return schemas.Record{}, fault.ErrUnavailable
	case !ok:
		return r, fault.ErrNotFound
	}
	return r, nil
}

// Get is the key's newest write.
func (s *Shelf) Get(_ context.Context, key string) (schemas.Record, error) {
	return s.read(key, 0, true)
}

// Next is the key's first write behind another that is kept.
func (s *Shelf) Next(_ context.Context, key string, after uint64) (schemas.Record, error) {
	return s.read(key, after, false)
}

// Forget removes a key.
func (s *Shelf) Forget(_ context.Context, key string, _ uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = slices.DeleteFunc(s.records, func(r schemas.Record) bool { return r.Subject == key })
	return nil
}

// Barrier returns at once.
func (s *Shelf) Barrier(context.Context) error { return nil }

// All are the writes that are kept, the oldest first.
func (s *Shelf) All() []schemas.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.records)
}

// Read returns up to limit records behind a write.
func (s *Shelf) Read(_ context.Context, after uint64, limit int) ([]schemas.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, fault.ErrUnavailable
	}
	all := slices.DeleteFunc(slices.Clone(s.records), func(r schemas.Record) bool { return r.Seq <= after })
	return all[:min(limit, len(all))], nil
}

// Watch calls fn for what is stored from now on.
func (s *Shelf) Watch(fn func(schemas.Record), _ func()) (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.watchers)
	s.watchers[n] = fn
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, n)
	}, nil
}

// Written is how often something was stored.
func (s *Shelf) Written() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.puts
}

// Away has the store answer nobody, or answer again.
func (s *Shelf) Away(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = away
}
