// Package bucket is a key-value bucket in memory, for tests of packages that store their state in one.
package bucket

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// Bucket is a bucket in memory that several nodes share. Its fields are read and set inside Set.
type Bucket struct {
	mu sync.Mutex

	// Records are the values that are kept, oldest first, and Last is the newest one's number.
	Records []schemas.Record
	Last    uint64
	// Keep is how many values of a key are kept; default 1.
	Keep int
	// Now stamps the records; default time.Now.
	Now func() time.Time
	// Watchers hear of a write, under the lock, before it is acknowledged. Deaf: they do not.
	Watchers map[int]Watcher
	Deaf     bool

	// Down is what each call fails with, and Broken what Barrier fails with.
	Down, Broken error
	// Before runs before each Put, without the lock. Its error is the Put's; stored says whether
	// the value is stored all the same.
	Before func(key string) (stored bool, err error)
	// Reads runs before each Get and Next, without the lock. Its error is theirs.
	Reads func() error
	// Asked runs after each Get, without the lock, and before that returns. Its error is the Get's.
	Asked func() error

	// Puts, Gets and Barriers count calls, refused ones too, and Stored what Put has stored.
	Puts, Gets, Barriers, Stored int
	// Seen is the newest record that a Read has returned.
	Seen uint64
}

// Watcher is what Watch was called with.
type Watcher struct {
	Received func(schemas.Record)
	Lost     func()
}

// New returns an empty one.
func New() *Bucket { return &Bucket{Watchers: map[int]Watcher{}, Now: time.Now} }

// Set changes or reads fields under the lock.
func (s *Bucket) Set(change func(*Bucket)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// Of are the kept values of a key, oldest first. It is for use inside Set.
func (s *Bucket) Of(key string) (all []schemas.Record) {
	for _, r := range s.Records {
		if r.Subject == key {
			all = append(all, r)
		}
	}
	return all
}

// Newest is a key's newest value; the zero one: there is none. It is for use inside Set.
func (s *Bucket) Newest(key string) (r schemas.Record) {
	if all := s.Of(key); len(all) > 0 {
		r = all[len(all)-1]
	}
	return r
}

// Store stores a value, whatever the key has. It is for use inside Set.
func (s *Bucket) Store(key string, value []byte) uint64 {
	s.Last++
	r := schemas.Record{Subject: key, Seq: s.Last, Time: s.Now().UTC(), Data: slices.Clone(value)}
	s.Records = append(s.Records, r)
	if all := s.Of(key); len(all) > max(s.Keep, 1) {
		s.Records = slices.DeleteFunc(slices.Clone(s.Records), func(r schemas.Record) bool { return r.Seq == all[0].Seq })
	}
	for _, w := range s.Watchers {
		if !s.Deaf {
			w.Received(r)
		}
	}
	return s.Last
}

// Put stores a value if the key's newest write is last.
func (s *Bucket) Put(ctx context.Context, key string, value []byte, last uint64) (uint64, error) {
	stored, lost := true, error(nil)
	var before func(string) (bool, error)
	if s.Set(func(s *Bucket) { before = s.Before }); before != nil {
		stored, lost = before(key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Puts++
	switch {
	case s.Down != nil:
		return 0, s.Down
	case ctx.Err() != nil:
		return 0, fault.ErrUnavailable
	case s.Newest(key).Seq != last:
		return 0, fault.ErrFenced
	case stored:
		s.Stored++
		s.Store(key, value)
	}
	return s.Last, lost
}

// Get is the key's newest write.
func (s *Bucket) Get(_ context.Context, key string) (schemas.Record, error) {
	var asked func() error
	r, err := s.read(func(s *Bucket) schemas.Record {
		s.Gets++
		asked = s.Asked
		return s.Newest(key)
	})
	if asked != nil {
		err = cmp.Or(asked(), err)
	}
	return r, err
}

// read looks a record up.
func (s *Bucket) read(find func(*Bucket) schemas.Record) (r schemas.Record, err error) {
	var reads func() error
	if s.Set(func(s *Bucket) { reads = s.Reads }); reads != nil {
		if err = reads(); err != nil {
			return r, err
		}
	}
	s.Set(func(s *Bucket) { r, err = find(s), s.Down })
	if r.Seq == 0 {
		err = cmp.Or(err, fault.ErrNotFound)
	}
	return r, err
}

// Next is the first kept write of a key after a write.
func (s *Bucket) Next(_ context.Context, key string, after uint64) (schemas.Record, error) {
	return s.read(func(s *Bucket) (r schemas.Record) {
		if i := slices.IndexFunc(s.Of(key), func(r schemas.Record) bool { return r.Seq > after }); i >= 0 {
			r = s.Of(key)[i]
		}
		return r
	})
}

// Read calls take for the records after a write.
func (s *Bucket) Read(_ context.Context, after uint64, take func(schemas.Record)) (last uint64, err error) {
	s.mu.Lock()
	all, err := s.Records, s.Down
	if err != nil {
		all = nil
	}
	s.mu.Unlock()
	for last = after; len(all) > 0; all = all[1:] {
		if r := all[0]; r.Seq > after {
			take(r)
			last = r.Seq
			s.Set(func(s *Bucket) { s.Seen = max(s.Seen, r.Seq) })
		}
	}
	return last, err
}

// Forget drops what is stored of a key up to a write.
func (s *Bucket) Forget(_ context.Context, key string, upTo uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Down == nil && s.Newest(key).Seq <= upTo {
		s.Records = slices.DeleteFunc(slices.Clone(s.Records), func(r schemas.Record) bool { return r.Subject == key })
	}
	return s.Down
}

// Watch calls heard for what is stored from now on.
func (s *Bucket) Watch(heard func(schemas.Record), lost func()) (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Down != nil {
		return nil, s.Down
	}
	n := len(s.Watchers)
	s.Watchers[n] = Watcher{heard, lost}
	return func() { s.Set(func(s *Bucket) { delete(s.Watchers, n) }) }, nil
}

// Barrier counts, and fails if Broken says so.
func (s *Bucket) Barrier(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Barriers++
	return s.Broken
}

// Away has the store answer nobody, or answer again.
func (s *Bucket) Away(away bool) {
	s.Set(func(s *Bucket) {
		if s.Down = nil; away {
			s.Down = fault.ErrUnavailable
		}
	})
}

// Hook has f run before each Put; nil: nothing. Its error is the Put's; stored says whether the value is stored all the same.
func (s *Bucket) Hook(f func() (err error, stored bool)) {
	s.Set(func(s *Bucket) {
		if s.Before = nil; f != nil {
			s.Before = func(string) (bool, error) {
				err, stored := f()
				return stored || err == nil, err
			}
		}
	})
}

// Overwrite stores a value whatever stands there, as another program does. It is no Put.
func (s *Bucket) Overwrite(key, value string) { s.Set(func(s *Bucket) { s.Store(key, []byte(value)) }) }

// Written is how often Put has stored something.
func (s *Bucket) Written() (n int) {
	s.Set(func(s *Bucket) { n = s.Stored })
	return n
}

// All are the values that are kept, oldest first.
func (s *Bucket) All() (all []schemas.Record) {
	s.Set(func(s *Bucket) { all = slices.Clone(s.Records) })
	return all
}
