package budget

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

const (
	// storeWithin bounds one turn at the bucket: what is read and written for all that
	// wait for one account.
	storeWithin = 10 * time.Second
	// maxTries is how often a write is repeated of which nobody knows whether it was
	// stored.
	maxTries = 8
	// firstPause and mostPause bound how long somebody waits, at random, who has lost the
	// race for an account more than once.
	firstPause = 2 * time.Millisecond
	mostPause  = 64 * time.Millisecond
	// maxLanes is how many accounts are kept in memory, beside those in use.
	maxLanes = 4096
)

// change is what is done to an account. It may be done several times, each time to
// another state of it: the last time counts. It reports whether it has changed anything,
// and does so in the same way wherever it is done again. Unsure: what it did before may
// have been stored, and be part of the account.
type change func(a *account, now time.Time, unsure bool) (changed bool)

// turn is a change that waits for its account.
type turn struct {
	do   change
	err  error
	done chan struct{}
}

// lane is the way to one account: what waits for it is done together, in one write.
type lane struct {
	key   string
	users int // of Book.mu

	mu      sync.Mutex
	waiting []*turn
	busy    bool
	seen    *sight
}

// sight is an account as it was last seen. It is never changed.
type sight struct {
	account  *account
	revision uint64
	at       time.Time
}

// enter takes a lane into use; leave must follow.
func (b *Book) enter(key string) *lane {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lanes[key]
	if l == nil {
		b.forget()
		l = &lane{key: key}
		b.lanes[key] = l
	}
	l.users++
	return l
}

func (b *Book) leave(l *lane) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l.users--
}

// forget makes room for a lane: one that nobody uses is only a copy.
func (b *Book) forget() {
	if len(b.lanes) < maxLanes {
		return
	}
	for key, l := range b.lanes {
		if l.users == 0 {
			delete(b.lanes, key)
			return
		}
	}
}

// change does something to an account, with whatever else waits for it, and returns when
// it is stored. Where the context ends first, it may still be done.
func (b *Book) change(ctx context.Context, key string, do change) error {
	t := &turn{do: do, done: make(chan struct{})}
	l := b.enter(key)
	defer b.leave(l)
	l.mu.Lock()
	l.waiting = append(l.waiting, t)
	begin := !l.busy
	l.busy = true
	l.mu.Unlock()
	if begin {
		// It works for all who wait, and outlives whoever came first.
		go b.work(context.WithoutCancel(ctx), l)
	}
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", fault.ErrUnavailable, context.Cause(ctx))
	}
}

// work does what waits until nothing does.
func (b *Book) work(ctx context.Context, l *lane) {
	for {
		l.mu.Lock()
		turns := l.waiting
		l.waiting = nil
		if l.busy = len(turns) > 0; !l.busy {
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		err := b.commit(ctx, l, turns)
		for _, t := range turns {
			t.err = err
			close(t.done)
		}
	}
}

// commit does some changes and stores what came of them, guarded by what they were done
// to. It looks again where that was no longer the newest.
func (b *Book) commit(ctx context.Context, l *lane, turns []*turn) error {
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	for tries, misses := 0, 0; ; {
		s, fresh := l.last(), false
		if s == nil {
			var err error
			if s, err = b.look(ctx, l); err != nil {
				return err
			}
			fresh = true
		}
		next, changed, now := s.account.clone(), false, b.cfg.Now()
		for _, t := range turns {
			changed = t.do(next, now, tries > 0) || changed
		}
		if !changed {
			if fresh {
				return nil
			}
			l.lose() // a refusal is of the newest state or none
			continue
		}
		value, err := next.encode()
		if err != nil {
			return err
		}
		revision, err := b.bucket.Put(ctx, l.key, value, s.revision)
		if err == nil {
			l.learn(&sight{next, revision, now})
			return nil
		}
		l.lose()
		switch {
		case errors.Is(err, fault.ErrUnavailable):
			tries++
		case errors.Is(err, fault.ErrFenced):
			misses++
			pause(ctx, misses)
		default:
			return err
		}
		if tries == maxTries || ctx.Err() != nil {
			return err
		}
	}
}

// pause waits for a random time that grows with the number of misses, and not for the
// first of them: those who want one account at once come apart.
func pause(ctx context.Context, misses int) {
	if misses < 2 {
		return
	}
	most := min(firstPause<<min(misses-2, 16), mostPause)
	timer := time.NewTimer(1 + rand.N(most)) //nolint:gosec // nothing to be guessed
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// look reads an account and remembers it.
func (b *Book) look(ctx context.Context, l *lane) (*sight, error) {
	now := b.cfg.Now()
	r, err := b.bucket.Get(ctx, l.key)
	if errors.Is(err, fault.ErrNotFound) {
		r, err = schemas.Record{}, nil
	}
	if err != nil {
		return nil, err
	}
	a, err := decode(r.Data)
	if err != nil {
		return nil, err
	}
	s := &sight{a, r.Seq, now}
	l.learn(s)
	return s, nil
}

func (l *lane) last() *sight {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

func (l *lane) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = nil
}

// learn remembers what was seen, unless something newer was.
func (l *lane) learn(s *sight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil || l.seen.revision <= s.revision {
		l.seen = s
	}
}
