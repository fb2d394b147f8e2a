// Package shelf is a bucket in memory, for tests of what keeps its state in one.
package shelf

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"weir/internal/fault"
	"weir/schemas"
)

// Shelf is a store in memory. Whoever watches it hears of a write before Put returns.
type Shelf struct {
	mu       sync.Mutex
	last     uint64
	records  map[string]schemas.Record
	puts     int
	down     bool
	watchers map[int]func(schemas.Record)
}

// New returns an empty one.
func New() *Shelf {
	return &Shelf{records: map[string]schemas.Record{}, watchers: map[int]func(schemas.Record){}}
}

// Put stores a value if the key's newest write is last.
func (s *Shelf) Put(_ context.Context, key string, value []byte, last uint64) (uint64, error) {
	s.mu.Lock()
	switch {
	case s.down:
		s.mu.Unlock()
		return 0, fault.ErrUnavailable
	case s.records[key].Seq != last:
		s.mu.Unlock()
		return 0, fault.ErrFenced
	}
	s.puts++
	s.last++
	r := schemas.Record{Subject: key, Seq: s.last, Data: slices.Clone(value)}
	s.records[key] = r
	var tell []func(schemas.Record)
	for _, f := range s.watchers {
		tell = append(tell, f)
	}
	s.mu.Unlock()
	for _, f := range tell {
		f(r)
	}
	return r.Seq, nil
}

// Get is the key's newest write.
func (s *Shelf) Get(_ context.Context, key string) (schemas.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[key]
	switch {
	case s.down:
		return r, fault.ErrUnavailable
	case !ok:
		return r, fault.ErrNotFound
	}
	return r, nil
}

// Read returns up to limit records behind a write.
func (s *Shelf) Read(_ context.Context, after uint64, limit int) ([]schemas.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, fault.ErrUnavailable
	}
	var all []schemas.Record
	for _, r := range s.records {
		if r.Seq > after {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b schemas.Record) int { return cmp.Compare(a.Seq, b.Seq) })
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
