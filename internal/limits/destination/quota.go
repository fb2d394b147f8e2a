package destination

import (
	"context"
	"maps"
	"sync"
	"time"

	"weir/internal/limits"
	"weir/schemas"
)

// quota is what this process has taken of the limits of an entry. It is used up here before more
// is taken.
type quota struct {
	limiter *Limiter
	account *limits.Account[usage]
	waiters *waiters
	taking  chan struct{} // holds a token while more is taken

	mu    sync.Mutex
	limit int // concurrency in force
	slots int // taken
	used  int // of them
	calls int // taken, and not started yet
	stale time.Time
}

const (
	// fresh is how long calls that were taken together may be kept: older ones would come on top
	// of what may begin by then.
	fresh = 250 * time.Millisecond
	// slotPause is how long a call without a slot waits before it asks again, up to half as much
	// longer.
	slotPause = 4 * time.Second
)

func quotaKey(entry string) string { return quotaPrefix + schemas.EscapeToken(entry) }

// quota finds what is taken of an entry.
func (l *Limiter) quota(entry string) *quota {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.quotas[entry]
	if q == nil {
		q = &quota{limiter: l, waiters: l.newWaiters(), taking: make(chan struct{}, 1)}
		q.account = l.usages.Open(quotaKey(entry), usage{V: usageVersion, Entry: entry}, nil)
		l.quotas[entry] = q
	}
	return q
}

// acquire takes what one call needs, or says what it has to wait for. A call whose time was booked
// needs no more than a slot.
func (q *quota) acquire(ctx context.Context, c *Call) (*Held, error) {
	rate := c.Limits.Count > 0 && !c.due(time.Now())
	if q.tryAcquire(c.Limits, rate) {
		return nil, nil //nolint:nilnil // it is let through
	}
	q.taking <- struct{}{}
	defer func() { <-q.taking }()
	since := q.waiters.since()
	if q.tryAcquire(c.Limits, rate) { // the call before took more than it needed
		return nil, nil //nolint:nilnil // it is let through
	}
	var held *Held
	var slots, calls int
	err := q.account.Change(context.WithoutCancel(ctx), func(u *usage, now time.Time) bool {
		held, slots, calls = nil, 0, 0
		if c.Limits.Concurrency > 0 {
			if slots = q.draw(u, now); slots < 0 {
				held, slots = q.full(c, since), 0
				return false
			}
		}
		if !rate {
			return slots > 0
		}
		block := 1
		if q.limiter.shared != nil {
			block = max(1, int(fresh/2/c.Limits.every()))
		}
		drawn, at, booked := u.draw(c.Limits, block, now, c.Deadline)
		if calls = drawn; drawn == 0 {
			held = &Held{For: schemas.WaitLimit, Until: at, Booked: booked}
		}
		return slots+drawn > 0 || booked
	})
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	if q.slots += slots; calls > 0 {
		q.calls, q.stale = calls, time.Now().Add(fresh)
	}
	q.mu.Unlock()
	if held != nil || q.tryAcquire(c.Limits, rate) {
		return held, nil
	}
	return q.full(c, since), nil // others were faster
}

// draw takes slots from all workers if this one has used its own: several while many are free, so
// that not every call has to ask. It returns how many; -1 if none is free.
func (q *quota) draw(u *usage, now time.Time) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.used < min(q.slots, q.limit) {
		return 0
	}
	worker := q.limiter.cfg.Worker
	free := u.free(q.limit, now) - max(0, q.slots-u.Slots[worker].N) // the slots of a lease that was lost
	if q.used >= q.limit || free <= 0 {
		return -1
	}
	n = 1
	if free > q.limit/2 {
		n = max(1, q.limit/8)
	}
	u.setSlots(worker, q.slots+n, now.Add(leaseTime))
	return n
}

// tryAcquire uses slots and calls that this worker holds already.
func (q *quota) tryAcquire(l Limits, rate bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit = l.Concurrency
	if time.Now().After(q.stale) {
		q.calls = 0
	}
	slot := l.Concurrency > 0
	if slot && q.used >= min(q.slots, q.limit) || rate && q.calls == 0 {
		return false
	}
	if slot {
		q.used++
	}
	if rate {
		q.calls--
	}
	return true
}

// full has a call wait for a slot.
func (q *quota) full(c *Call, since chan struct{}) *Held {
	until := time.Now().Add(spread(slotPause))
	return q.waiters.hold(schemas.WaitCapacity, c.Ref, until, since, func() bool { return q.free() > 0 })
}

// free is how many calls could have a slot now.
func (q *quota) free() int {
	u := q.account.Value()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.limit == 0 {
		return 0
	}
	return u.free(q.limit, time.Now()) + q.slots - q.used
}

// wake has calls look again for which a slot is free.
func (q *quota) wake() {
	if n := q.free(); n > 0 {
		q.waiters.notify(n)
	}
}

// release gives a slot back: to a call that waits here, or to all workers when none is free any
// more; they may take it once that is stored.
func (q *quota) release() {
	u, alone, next := q.account.Value(), q.limiter.shared == nil, 0
	q.mu.Lock()
	q.used--
	if alone && q.used < q.limit {
		next = 1
	}
	back := !alone && q.slots > q.used && u.free(q.limit, time.Now()) == 0
	if back {
		q.slots = q.used
	}
	q.mu.Unlock()
	if back {
		q.limiter.background(q.renew)
	}
	q.waiters.notify(next)
}

// renew gives up the slots that this process does not use and stores how many it has, if any or if
// the account names some, and wakes actions for which one is free now. After an error the next
// renewal stores it; other workers wait for the end of the lease.
func (q *quota) renew(ctx context.Context) {
	q.taking <- struct{}{}
	defer func() { <-q.taking }()
	err := q.account.Change(context.WithoutCancel(ctx), func(u *usage, now time.Time) bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.slots = q.used
		worker := q.limiter.cfg.Worker
		if _, listed := u.Slots[worker]; !listed && q.slots == 0 {
			return false
		}
		u.setSlots(worker, q.slots, now.Add(leaseTime))
		return true
	})
	if err == nil {
		q.wake()
	}
}

const usageVersion = 1

// Limits are what an entry grants to all workers together.
type Limits struct {
	// Count calls may begin in each Per; 0: any number.
	Count int
	Per   time.Duration
	// Concurrency is how many may run at a time; 0: any number.
	Concurrency int
}

// every is how far apart calls are that come as often as they may.
func (l Limits) every() time.Duration { return max(1, l.Per/time.Duration(l.Count)) }

// burst is how many calls may come at once: what may come in a second, and at least one.
func (l Limits) burst() int { return max(1, int(time.Second/l.every())) }

// usage is what all workers have used of an entry's limits: the value of its key.
type usage struct {
	V     int    `json:"v"`
	Entry string `json:"entry"`
	// Next is when the next call would begin if all came as far apart as they may, in
	// microseconds of Unix time, and Every how far that was. Booked calls begin before it.
	Next  int64 `json:"next,omitempty"`
	Every int64 `json:"every,omitempty"`
	// Slots are how many calls at a time each worker has taken for itself.
	Slots map[string]lease `json:"seats,omitempty"`
}

// lease is a worker's share. It is free again when it is not renewed in time.
type lease struct {
	N     int   `json:"n"`
	Until int64 `json:"until"` // milliseconds of Unix time
}

// cloneUsage leaves out the leases of dead workers.
func cloneUsage(u usage) usage {
	now := time.Now().UnixMilli()
	u.Slots = maps.Clone(u.Slots)
	maps.DeleteFunc(u.Slots, func(_ string, l lease) bool { return l.Until <= now })
	return u
}

// free is how many calls at a time no worker has taken.
func (u *usage) free(limit int, now time.Time) int {
	for _, l := range u.Slots {
		if l.Until > now.UnixMilli() {
			limit -= l.N
		}
	}
	return max(0, limit)
}

// setSlots has a worker hold n slots until a time.
func (u *usage) setSlots(worker string, n int, until time.Time) {
	if u.Slots == nil {
		u.Slots = map[string]lease{}
	}
	u.Slots[worker] = lease{n, until.UnixMilli()}
	if n == 0 {
		delete(u.Slots, worker)
	}
}

// draw takes up to n calls that may begin now, and returns how many it got. If none may, it books
// the next one at a time, unless that is latest or later.
func (u *usage) draw(l Limits, n int, now, latest time.Time) (drawn int, at time.Time, booked bool) {
	every := max(1, l.every().Microseconds())
	if u.Every != every && u.Next > now.Add(time.Hour).UnixMicro() { // booked under another limit
		u.Next = 0
	}
	u.Every = every
	next := max(u.Next, now.UnixMicro())
	at = time.UnixMicro(next - int64(l.burst()-1)*every) // of the first of a burst
	early := now.UnixMicro() - at.UnixMicro()
	switch {
	case early >= 0:
		drawn = min(n, int(early/every)+1)
		u.Next = next + int64(drawn)*every
	case latest.IsZero() || at.Before(latest):
		booked = true
		u.Next = next + every
	}
	return drawn, at, booked
}
