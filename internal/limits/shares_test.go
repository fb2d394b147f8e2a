package limits_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"weir/internal/limits"
)

// acquired collects the order in which waiters are served.
type acquired struct {
	mu    sync.Mutex
	order []string
	free  map[string][]func()
}

func (a *acquired) start(t *testing.T, s *limits.Shares, tenant string, n int64) {
	t.Helper()
	go func() {
		release, err := s.Acquire(t.Context(), tenant, n)
		if err != nil {
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.order = append(a.order, tenant)
		a.free[tenant] = append(a.free[tenant], release)
	}()
	synctest.Wait()
}

func (a *acquired) release(tenant string) {
	a.mu.Lock()
	first := a.free[tenant][0]
	a.free[tenant] = a.free[tenant][1:]
	a.mu.Unlock()
	first()
	first() // a second time does nothing
	synctest.Wait()
}

func (a *acquired) held(tenant string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.free[tenant])
}

func TestOneTenantLeavesAShareToTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, a := limits.NewShares(limits.Percent(16, 25)), &acquired{free: map[string][]func(){}}
		for range 100 {
			a.start(t, s, "a", 1)
		}
		require.Equal(t, 12, a.held("a"), "alone it may use all but one share")
		for range 10 {
			a.start(t, s, "b", 1)
		}
		require.Equal(t, 4, a.held("b"), "another gets its share at once")
		for range 8 {
			a.release("a")
		}
		require.Equal(t, []int{6, 6}, []int{a.held("a"), a.held("b")}, "both wait and get the same, but for one share")
		for range 10 {
			a.start(t, s, "c", 1)
		}
		require.Equal(t, 4, a.held("c"), "the next finds its share free")
	})
}

func TestTheTenantThatHoldsLeastIsServedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, a := limits.NewShares(limits.Division{Capacity: 3, Share: 3}), &acquired{free: map[string][]func(){}}
		for _, tenant := range []string{"a", "a", "b", "a", "b", "c"} {
			a.start(t, s, tenant, 1)
		}
		require.Equal(t, []string{"a", "a", "b"}, a.order)
		a.release("b")
		a.release("a")
		a.release("a")
		require.Equal(t, []string{"a", "a", "b", "b", "c", "a"}, a.order, "of two that hold nothing the earlier")
	})
}

func TestALargeWaiterIsNotPassedForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, a := limits.NewShares(limits.Percent(8, 25)), &acquired{free: map[string][]func(){}}
		a.start(t, s, "a", 2)
		a.start(t, s, "a", 2)
		a.start(t, s, "b", 100) // more than there is: the whole capacity
		a.start(t, s, "c", 1)
		require.Equal(t, []string{"a", "a"}, a.order)
		a.release("a")
		a.release("a")
		require.Equal(t, []string{"a", "a", "b"}, a.order)
		a.release("b")
		require.Equal(t, []string{"a", "a", "b", "c"}, a.order)
	})
}

func TestAcquireEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := limits.NewShares(limits.Percent(1, 25))
		release, err := s.Acquire(t.Context(), "a", 1)
		require.NoError(t, err)
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		var failed error
		go func() { _, failed = s.Acquire(ctx, "b", 1) }()
		synctest.Wait()
		require.EqualValues(t, 1, s.Held("a"))
		cancel(gone)
		synctest.Wait()
		require.ErrorIs(t, failed, gone)
		_, err = s.Acquire(ctx, "b", 1)
		require.ErrorIs(t, err, gone)
		release()
		again, err := s.Acquire(t.Context(), "b", 1)
		require.NoError(t, err)
		again()
	})
}

func TestTryDoesNotWait(t *testing.T) {
	t.Parallel()
	s := limits.NewShares(limits.Percent(8, 25))
	var held []func()
	for range 6 {
		release, ok := s.TryAcquire("a", 1)
		require.True(t, ok)
		held = append(held, release)
	}
	_, ok := s.TryAcquire("a", 1)
	require.False(t, ok, "it leaves a share free")
	other, ok := s.TryAcquire("b", 2)
	require.True(t, ok, "and another tenant has it")
	granted, leave := s.Enqueue("c", 1)
	defer leave()
	_, ok = s.TryAcquire("d", 1)
	require.False(t, ok, "nor does it pass those who wait")
	other()
	other()
	<-granted
	held[0]()
	require.EqualValues(t, 5, s.Held("a"))
	require.Zero(t, s.Held("b"))
	require.Zero(t, s.Held("d"))
	again, ok := s.TryAcquire("d", 1)
	require.True(t, ok)
	again()
}

// TestNothingIsLostOrGivenTwice: tenants that take, wait, give up and give back at random never hold
// more than there is, and all of it is free in the end.
func TestNothingIsLostOrGivenTwice(t *testing.T) {
	t.Parallel()
	const capacity = 10
	s := limits.NewShares(limits.Percent(capacity, 25))
	var mu sync.Mutex
	var used int64
	count := func(n int64) int64 {
		mu.Lock()
		defer mu.Unlock()
		used += n
		return used
	}
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for j := range 200 {
				n := rand.Int64N(4) + 1
				ctx, cancel := context.WithCancel(t.Context())
				if j%3 == 0 {
					go cancel()
				}
				release, err := s.Acquire(ctx, fmt.Sprint("tenant", i%5), n)
				if err == nil {
					if now := count(n); now > capacity {
						t.Errorf("%d of %d are held", now, capacity)
					}
					count(-n)
					release()
				}
				cancel()
			}
		})
	}
	all.Wait()
	release, err := s.Acquire(t.Context(), "last", capacity)
	require.NoError(t, err)
	release()
}

func TestResize(t *testing.T) {
	t.Parallel()
	s := limits.NewShares(limits.Percent(1, 25))
	_, leave := s.Enqueue("a", 1)
	granted, _ := s.Enqueue("a", 1)
	s.Resize(limits.Percent(8, 25))
	<-granted
	s.Resize(limits.Percent(1, 25))
	granted, _ = s.Enqueue("b", 1)
	leave()
	require.EqualValues(t, 1, s.Held("a"), "what is over the new capacity stays held")
	select {
	case <-granted:
		t.Fatal("more than the new capacity is held")
	default:
	}
}

func TestPercent(t *testing.T) {
	t.Parallel()
	require.Equal(t, limits.Division{Capacity: 10 << 30, Share: 10 << 28}, limits.Percent(10<<30, 25))
	require.Equal(t, limits.Division{Capacity: 4, Share: 1}, limits.Percent(4, 25))
	require.Equal(t, limits.Division{Capacity: 3, Share: 3}, limits.Percent(3, 25), "too little to be divided")
	require.Equal(t, limits.Division{Capacity: 7, Share: 7}, limits.Percent(7, 100))
}
