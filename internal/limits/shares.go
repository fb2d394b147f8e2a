// Package limits divides what all tenants use between them, and keeps accounts that all processes
// share.
package limits

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// Division is how a capacity is divided between tenants, in any unit: bytes, slots, processes. Each
// tenant may always use up to Share of it. It is a value and safe for concurrent use.
type Division struct{ Capacity, Share int64 }

// Percent is the Division of a capacity in which each tenant has that percentage, 1 to 100. A capacity
// too small for a share of one unit is not divided.
func Percent(capacity int64, percent int) Division {
	share := capacity/100*int64(percent) + capacity%100*int64(percent)/100
	if share == 0 {
		share = capacity
	}
	return Division{Capacity: capacity, Share: share}
}

// Quota is what a tenant has of a capacity that is not given back on demand, such as stored bytes, and what it may have
// now. A Limit of 0 means that nothing bounds it.
type Quota struct {
	Used, Limit int64
	// Frees is when some of it is free again, for a tenant that is Over.
	Frees time.Time
}

// Remaining is how much more the tenant may have.
func (r Quota) Remaining() int64 {
	if r.Limit == 0 {
		return math.MaxInt64
	}
	return max(r.Limit-r.Used, 0)
}

// Exhausted reports whether the tenant has all that it may have.
func (r Quota) Exhausted() bool { return r.Remaining() == 0 }

// Shares is a semaphore whose capacity is divided between tenants:
//
//   - Among tenants that wait, the one that holds least is served first; of one tenant's waiters, the
//     one that came first.
//   - A tenant may hold more than its share, but leaves one share free: the first request of another
//     tenant then does not wait for this one's to end.
//
// With Share equal to Capacity, a tenant may hold all of it. It is safe for concurrent use.
type Shares struct {
	Division

	mu      sync.Mutex
	used    int64
	held    map[string]int64
	waiting map[string][]*waiter // by tenant
	arrived uint64
}

// waiter is one call of Join, until it leaves.
type waiter struct {
	n       int64
	arrived uint64
	granted chan struct{} // closed
}

// NewShares returns a semaphore over a capacity.
func NewShares(d Division) *Shares {
	return &Shares{Division: d, held: map[string]int64{}, waiting: map[string][]*waiter{}}
}

// Resize changes the capacity and the share. Holds over the new capacity stay.
func (s *Shares) Resize(d Division) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Division = d
	s.grant()
}

// Acquire waits until the tenant may use n more, or ctx has ended: then it returns the cause of
// that. An n over the capacity counts as the whole capacity. Release gives it back; it must be called, and does
// nothing when called again.
func (s *Shares) Acquire(ctx context.Context, tenant string, n int64) (release func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	granted, leave := s.Enqueue(tenant, n)
	select {
	case <-granted:
		return leave, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

// TryAcquire is Acquire for those who do not wait: ok is false where Acquire would.
func (s *Shares) TryAcquire(tenant string, n int64) (release func(), ok bool) {
	granted, leave := s.Enqueue(tenant, n)
	select {
	case <-granted:
		return leave, true
	default:
		leave()
		return nil, false
	}
}

// Enqueue is Acquire for those who wait for more than a context. Granted is closed when the tenant may use n more.
// Leave gives that back, or ends the wait for it; it must be called, and does nothing when called again.
func (s *Shares) Enqueue(tenant string, n int64) (granted <-chan struct{}, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrived++
	w := &waiter{n: max(min(n, s.Capacity), 1), arrived: s.arrived, granted: make(chan struct{})}
	s.waiting[tenant] = append(s.waiting[tenant], w)
	s.grant()
	return w.granted, sync.OnceFunc(func() { s.release(tenant, w) })
}

// release ends a wait, or what it was granted.
func (s *Shares) release(tenant string, w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting[tenant], w); i >= 0 {
		s.waiting[tenant] = slices.Delete(s.waiting[tenant], i, i+1)
	} else {
		s.used -= w.n
		if s.held[tenant] -= w.n; s.held[tenant] == 0 {
			delete(s.held, tenant)
		}
	}
	s.grant()
}

// Held is what the tenant holds.
func (s *Shares) Held(tenant string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[tenant]
}

// grant serves every waiter that may be served. The caller holds mu.
func (s *Shares) grant() {
	for {
		tenant, ok := s.next()
		if !ok {
			return
		}
		w := s.waiting[tenant][0]
		s.waiting[tenant] = s.waiting[tenant][1:]
		s.used += w.n
		s.held[tenant] += w.n
		close(w.granted)
	}
}

// next is the tenant whose first waiter must be served now. A waiter within its tenant's share
// that finds too little room keeps all later ones waiting, so that many small ones cannot pass a large one
// for ever. The caller holds mu.
func (s *Shares) next() (string, bool) {
	maps.DeleteFunc(s.waiting, func(_ string, list []*waiter) bool { return len(list) == 0 })
	tenants := slices.SortedFunc(maps.Keys(s.waiting), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.held[a], s.held[b]), cmp.Compare(s.waiting[a][0].arrived, s.waiting[b][0].arrived))
	})
	spare := s.Capacity - s.Share
	if spare == 0 {
		spare = s.Capacity
	}
	for _, t := range tenants {
		held, n := s.held[t], s.waiting[t][0].n
		// A single use that is larger than the share keeps to it: it could never begin otherwise.
		if held == 0 || held+n <= s.Share || s.used+n <= spare {
			return t, s.used+n <= s.Capacity
		}
	}
	return "", false
}
