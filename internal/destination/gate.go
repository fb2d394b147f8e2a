package destination

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// gate is the way to all that an entry leads to, where it has limits. What this process
// has taken of them is used up here before more is taken.
type gate struct {
	key, entry string

	mu       sync.Mutex
	limits   Limits
	account  account
	revision uint64

	seats  int // taken
	used   int // of them
	calls  int // drawn, and not used yet
	stale  time.Time
	left   chan struct{} // closed, and replaced, whenever a seat is free again
	asleep sleepers

	storing single // one write of this process at a time
}

// fresh is how long calls that were drawn together may be kept: what is older would come
// on top of what may begin by then.
const fresh = 250 * time.Millisecond

func gateKey(entry string) string { return gatePrefix + schemas.EscapeToken(entry) }

// gate finds the way to an entry with the limits in force.
func (b *Book) gate(entry string, l Limits) *gate {
	g := b.gateOf(entry)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.limits != l {
		if g.limits.Count > 0 && (l.Count == 0 || g.account.Next > b.cfg.Now().Add(time.Hour).UnixMicro()) {
			g.account.Next = 0 // what was booked under another limit, and not before this process knew of any
		}
		g.limits, g.calls = l, 0
		if l.Concurrency > 0 {
			g.seats = min(g.seats, max(g.used, l.Concurrency))
		}
	}
	return g
}

func (b *Book) gateOf(entry string) *gate {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.gates[entry]
	if g == nil {
		g = &gate{key: gateKey(entry), entry: entry, storing: newSingle(), left: make(chan struct{}), account: account{V: accountVersion, Entry: entry}}
		b.gates[entry] = g
	}
	return g
}

func (b *Book) learnGate(r schemas.Record) {
	if a, ok := decodeAccount(r.Data); ok && gateKey(a.Entry) == r.Subject {
		g := b.gateOf(a.Entry)
		g.mu.Lock()
		defer g.mu.Unlock()
		b.accept(g, a, r.Seq)
	}
}

// accept puts a newer account in the place of an older one, and wakes whoever a seat is
// free for. The caller holds the gate's lock.
func (b *Book) accept(g *gate, a account, revision uint64) {
	if revision <= g.revision {
		return
	}
	g.account, g.revision = a, revision
	if g.limits.Concurrency > 0 {
		if n := g.account.free(g.limits.Concurrency, b.cfg.Now()) + g.seats - g.used; n > 0 {
			g.leave()
			b.wakers.wake(g.asleep.take(n, b.cfg.Now()))
		}
	}
}

// leave tells whoever waits in a worker's slot. The caller holds the lock.
func (g *gate) leave() {
	close(g.left)
	g.left = make(chan struct{})
}

// shortage is what a gate does not have.
type shortage struct {
	why    string    // schemas.WaitLimit or schemas.WaitCapacity
	until  time.Time // of WaitLimit: when the call may begin
	booked bool      // it is booked for that time
	left   <-chan struct{}
}

// pass takes what one call needs, or says what is lacking. A call whose time was booked
// needs no more than a seat.
func (b *Book) pass(ctx context.Context, g *gate, c *Call, seat, rate bool) (*shortage, error) {
	g.mu.Lock()
	seat, rate = seat && g.limits.Concurrency > 0, rate && g.limits.Count > 0
	rate = rate && !c.due(b.cfg.Now())
	if g.take(seat, rate, b.cfg.Now()) {
		g.mu.Unlock()
		return nil, nil //nolint:nilnil // nothing is lacking
	}
	g.mu.Unlock()
	g.storing.Lock()
	defer g.storing.Unlock()
	g.mu.Lock()
	ok := g.take(seat, rate, b.cfg.Now()) // whoever was before us took more than it needed
	g.mu.Unlock()
	if ok {
		return nil, nil //nolint:nilnil // nothing is lacking
	}
	var lack *shortage
	err := b.settle(ctx, g, func(a *account, now time.Time) (drawn drawn, changed bool) {
		drawn, changed, lack = b.want(g, a, c, seat, rate, now)
		return drawn, changed
	})
	if err != nil || lack != nil {
		return lack, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.take(seat, rate, b.cfg.Now()) {
		return nil, nil //nolint:nilnil // nothing is lacking
	}
	return &shortage{why: schemas.WaitCapacity, left: g.left}, nil // others were faster
}

// take uses what was taken before. The caller holds the lock.
func (g *gate) take(seat, rate bool, now time.Time) bool {
	if rate && now.After(g.stale) {
		g.calls = 0
	}
	if seat && (g.used >= g.seats || g.used >= g.limits.Concurrency) || rate && g.calls == 0 {
		return false
	}
	if seat {
		g.used++
	}
	if rate {
		g.calls--
	}
	return true
}

// drawn is what a change of the account brings this process.
type drawn struct{ seats, calls int }

// want says what is to be taken of an account: more than one call needs, where there is
// much of it, so that not every call has to ask.
func (b *Book) want(g *gate, a *account, c *Call, seat, rate bool, now time.Time) (got drawn, changed bool, lack *shortage) {
	a.tidy(now)
	g.mu.Lock()
	limits, used, seats, left := g.limits, g.used, g.seats, g.left
	g.mu.Unlock()
	if seat && used >= limits.Concurrency { // it was more, and what began then goes on
		return got, false, &shortage{why: schemas.WaitCapacity, left: left}
	}
	if seat && used >= seats {
		free := a.free(limits.Concurrency, now)
		if own, ok := a.Seats[b.cfg.Worker]; !ok || own.N < seats { // the lease was lost
			free -= seats - own.N
		}
		if free <= 0 {
			return got, false, &shortage{why: schemas.WaitCapacity, left: left}
		}
		got.seats = 1
		if free > limits.Concurrency/2 {
			got.seats = max(1, limits.Concurrency/8)
		}
		a.seat(b.cfg.Worker, seats+got.seats, now.Add(b.cfg.Lease))
		changed = true
	}
	if !rate {
		return got, changed, nil
	}
	block := 1
	if b.shared != nil {
		block = max(1, int(fresh/2/limits.every()))
	}
	if got.calls = a.draw(limits, block, now); got.calls > 0 {
		return got, true, nil
	}
	at, booked := a.book(limits, now, c.Deadline)
	return got, changed || booked, &shortage{why: schemas.WaitLimit, until: at, booked: booked}
}

// settle changes the account, for everybody, and gives this process what it brings. The
// caller holds storing.
func (b *Book) settle(ctx context.Context, g *gate, do func(a *account, now time.Time) (got drawn, changed bool)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeWithin)
	defer cancel()
	for try := 1; ; try++ {
		g.mu.Lock()
		a, revision := g.account.clone(), g.revision
		g.mu.Unlock()
		now := b.cfg.Now()
		got, changed := do(&a, now)
		if !changed {
			return nil
		}
		if b.shared != nil {
			value, err := json.Marshal(a)
			if err != nil {
				return err
			}
			seq, err := b.shared.Put(ctx, g.key, value, revision)
			switch {
			case err == nil:
				revision = seq
			case try == shareTries || ctx.Err() != nil || !errors.Is(err, fault.ErrFenced) && !errors.Is(err, fault.ErrUnavailable):
				return err
			default:
				if err := b.lookGate(ctx, g); err != nil {
					return err
				}
				pause(ctx, try)
				continue
			}
		}
		g.mu.Lock()
		if b.shared == nil || revision > g.revision {
			g.account, g.revision = a, revision
		}
		g.seats += got.seats
		if got.calls > 0 {
			g.calls, g.stale = got.calls, now.Add(fresh)
		}
		g.mu.Unlock()
		return nil
	}
}

func (b *Book) lookGate(ctx context.Context, g *gate) error {
	r, err := b.shared.Get(ctx, g.key)
	gone := errors.Is(err, fault.ErrNotFound)
	if err != nil && !gone {
		return err
	}
	a, ok := decodeAccount(r.Data)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case gone: // nothing was used for long
		g.account, g.revision = account{V: accountVersion, Entry: g.entry}, 0
	case !ok: // of another version: it is written over
		g.account, g.revision = account{V: accountVersion, Entry: g.entry}, r.Seq
	case r.Seq > g.revision:
		g.account, g.revision = a, r.Seq
	}
	return nil
}
