package limits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/internal/retry"
	"weir/schemas"
)

// Bucket stores one value a key and numbers the writes to all of them; see broker.Bucket. In
// its records Subject is the key and Seq the number of the write.
type Bucket interface {
	// Get is the key's newest write; fault.ErrNotFound: there is none.
	Get(ctx context.Context, key string) (schemas.Record, error)
	// Put stores a value if the key's newest write is last, 0 for none. fault.ErrFenced says
	// that it is not; after fault.ErrUnavailable the value may be stored.
	Put(ctx context.Context, key string, value []byte, last uint64) (uint64, error)
}

// Accounts is what accounts of one sort have in common.
type Accounts[T any] struct {
	// Bucket stores them, as JSON; nil: in the memory of this process alone.
	Bucket Bucket
	// Readable reports whether a value has this version and belongs to the key.
	Readable func(key string, v T) bool
	// Unreadable is the error of a change to a value that cannot be read, which is not written over.
	// If it is nil, such a value counts as none, and is written over.
	Unreadable error
	// Clone copies a value, so that the copy can be changed.
	Clone func(T) T
	// Followed: the owner of an account calls Learn for every write. Then its copy is trusted
	// until a write shows that it is old. Otherwise a change that changes nothing is tried
	// again on the newest value.
	Followed bool
	// Local: changes that cannot be stored are still made to the copy of this process. The
	// next write stores them too, unless a newer value is learned first.
	Local bool
	// Within bounds what is read and written for one batch of changes.
	Within time.Duration
	Now    func() time.Time // default time.Now
}

const (
	// maxTries is how often a write is tried if its outcome is not known.
	maxTries = 8
	// A process that loses the race for an account more than once pauses for a random time,
	// up to minPause the first time and up to maxPause later.
	minPause, maxPause = 2 * time.Millisecond, 64 * time.Millisecond
)

// Account is one value that all processes change by compare-and-set, and this process's copy of
// it. Changes that wait for the same account are stored in one write. It is safe for concurrent
// use.
type Account[T any] struct {
	of        *Accounts[T]
	key       string
	none      *T // the value of a key that was never written
	installed func(was, is *T)

	mu sync.Mutex
	state[T]
	waiting []*change[T]
	busy    bool
}

// state is what is known of a value.
type state[T any] struct {
	value    *T // it is replaced, never changed
	revision uint64
	seen     time.Time // when the value was read or written
	lost     bool      // the value is not known, or is old
}

// change is one call of Change.
type change[T any] struct {
	do   func(v *T, now time.Time) bool
	done chan error // takes one
}

// Open returns the account of a key, and reads nothing. Its value is none while none is stored. If
// installed is not nil, it is called whenever the copy is replaced, under the account's lock.
func (s *Accounts[T]) Open(key string, none T, installed func(was, is *T)) *Account[T] {
	return &Account[T]{of: s, key: key, none: &none, installed: installed, state: state[T]{value: &none, lost: s.Bucket != nil && !s.Followed}}
}

func (s *Accounts[T]) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

// Decode reads a stored value; ok is false if it is not readable.
func (s *Accounts[T]) Decode(r schemas.Record) (v T, ok bool) {
	ok = json.Unmarshal(r.Data, &v) == nil && s.Readable(r.Subject, v)
	return v, ok
}

func (a *Account[T]) known() state[T] {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// Value is the copy. The caller must not change it.
func (a *Account[T]) Value() *T { return a.known().value }

// Seen is the copy and when it was read or written. Without a copy, or for one older than
// notBefore, it reads the value.
func (a *Account[T]) Seen(ctx context.Context, notBefore time.Time) (v *T, at time.Time, err error) {
	if s := a.known(); s.lost || s.seen.Before(notBefore) {
		a.lose()
		err = a.read(ctx)
	}
	s := a.known()
	return s.value, s.seen, err
}

// Learn replaces the copy by a value that was heard of, and reports whether that is newer.
func (a *Account[T]) Learn(v T, revision uint64) bool { return a.install(&v, revision, false) }

// install replaces the copy by a newer value; with again by an equally new one too, and by any
// while the copy is lost.
func (a *Account[T]) install(v *T, revision uint64, again bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if revision <= a.revision && (!again || !a.lost && revision < a.revision) {
		return false
	}
	was := a.value
	a.state = state[T]{value: v, revision: revision, seen: a.of.now()}
	if a.installed != nil {
		a.installed(was, v)
	}
	return true
}

// Change calls do with a copy of the newest value and stores what it has changed, together with
// the changes of other callers. It may call do several times, each time with another value: the
// last call counts, and an earlier one may have been stored and be part of the value. If ctx ends
// first, the change may still be made.
func (a *Account[T]) Change(ctx context.Context, do func(v *T, now time.Time) (changed bool)) error {
	c := &change[T]{do: do, done: make(chan error, 1)}
	a.mu.Lock()
	a.waiting = append(a.waiting, c)
	begin := !a.busy
	a.busy = true
	a.mu.Unlock()
	if begin { // it works for all callers, and outlives the first
		go a.work(context.WithoutCancel(ctx))
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", fault.ErrUnavailable, context.Cause(ctx))
	}
}

// work makes changes until none waits.
func (a *Account[T]) work(ctx context.Context) {
	for {
		a.mu.Lock()
		batch := a.waiting
		a.waiting, a.busy = nil, len(batch) > 0
		a.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		var err error
		if a.of.Bucket != nil {
			err = a.commit(ctx, batch)
		}
		if a.of.Bucket == nil || err != nil && a.of.Local {
			if next, revision, changed := a.apply(batch); changed {
				a.install(next, revision, true)
			}
		}
		for _, c := range batch {
			c.done <- err
		}
	}
}

// apply makes changes to a copy of the value, which has this revision.
func (a *Account[T]) apply(batch []*change[T]) (next *T, revision uint64, changed bool) {
	s, now := a.known(), a.of.now()
	v := a.of.Clone(*s.value)
	for _, c := range batch {
		changed = c.do(&v, now) || changed
	}
	return &v, s.revision, changed
}

// commit makes some changes and stores the result, guarded by the revision that they were made
// to. It reads the value again if that was not the newest.
func (a *Account[T]) commit(ctx context.Context, batch []*change[T]) error {
	ctx, cancel := context.WithTimeout(ctx, a.of.Within)
	defer cancel()
	fresh := a.of.Followed
	for tries, misses := 0, 0; ; a.lose() {
		if a.known().lost {
			if err := a.read(ctx); err != nil {
				return err
			}
			fresh = true
		}
		next, revision, changed := a.apply(batch)
		switch {
		case !changed && fresh:
			return nil
		case !changed:
			continue
		}
		data, err := json.Marshal(next)
		if err != nil {
			return err
		}
		stored, err := a.of.Bucket.Put(ctx, a.key, data, revision)
		switch {
		case err == nil:
			a.install(next, stored, false)
			return nil
		case errors.Is(err, fault.ErrFenced):
			if misses++; misses > 1 { // processes that want the same account come apart
				retry.Pause(ctx, 1+rand.N(min(minPause<<min(misses-2, 16), maxPause))) //nolint:gosec // a spread, no secret
			}
		case errors.Is(err, fault.ErrUnavailable) && tries < maxTries-1:
			tries++
		default:
			return err
		}
		if ctx.Err() != nil {
			return err
		}
	}
}

func (a *Account[T]) lose() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lost = true
}

// read replaces the copy by the stored value, unless something newer was heard of meanwhile.
func (a *Account[T]) read(ctx context.Context) error {
	r, err := a.of.Bucket.Get(ctx, a.key)
	if err != nil && !errors.Is(err, fault.ErrNotFound) {
		return err
	}
	value := a.none
	if v, ok := a.of.Decode(r); ok {
		value = &v
	} else if len(r.Data) > 0 && a.of.Unreadable != nil {
		return a.of.Unreadable
	}
	a.install(value, r.Seq, true)
	return nil
}
