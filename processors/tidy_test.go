package processors

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"weir/internal/weirtest/table"
	"weir/schemas"
)

// TestRestingIsBounded: those that others have woken are not kept for ever.
func TestRestingIsBounded(t *testing.T) {
	t.Parallel()
	r := newDeferredActions(func(context.Context, schemas.Ref) error { return nil })
	past := time.Now().Add(-time.Second)
	for i := range 100 * sweep {
		r.put(schemas.Ref{Tenant: "t", ID: strconv.Itoa(i)}, past, nil)
	}
	assert.LessOrEqual(t, len(r.of["t"]), sweep)
	later := time.Now().Add(time.Hour)
	for i := range 10 * sweep {
		r.put(schemas.Ref{Tenant: "t", ID: "l" + strconv.Itoa(i)}, later, nil)
	}
	assert.GreaterOrEqual(t, len(r.of["t"]), 10*sweep)
}

// TestNobodyIsWokenBehindTheEnd: what is under way is waited for, and no more begins.
func TestNobodyIsWokenBehindTheEnd(t *testing.T) {
	t.Parallel()
	var woken atomic.Int32
	begun, free := make(chan struct{}), make(chan struct{})
	r := newDeferredActions(func(context.Context, schemas.Ref) error {
		close(begun)
		<-free
		woken.Add(1)
		return nil
	})
	later := time.Now().Add(time.Hour)
	r.put(schemas.Ref{Tenant: "t", ID: "1"}, later, nil)
	r.put(schemas.Ref{Tenant: "u", ID: "2"}, later, nil)
	r.wakeTenant("t")
	<-begun
	go close(free)
	r.close()
	assert.Equal(t, int32(1), woken.Load())
	r.wakeTenant("u")
	r.close()
	assert.Equal(t, int32(1), woken.Load())
}

// TestWhoWasNotReachedIsWokenLater: a log that does not answer, or not to all in one
// round, is asked again, but not for those whose time has come.
func TestWhoWasNotReachedIsWokenLater(t *testing.T) {
	t.Parallel()
	table.Bubble(t, map[string]bool{"roused": false, "told before it rested": true}, func(t *testing.T, told bool) {
		var mu sync.Mutex
		var down atomic.Bool
		start, woken := time.Now(), map[string]int{}
		down.Store(true)
		r := newDeferredActions(func(ctx context.Context, ref schemas.Ref) error {
			if down.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			mu.Lock()
			defer mu.Unlock()
			woken[ref.ID]++
			return nil
		})
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(woken)
		}
		replaced := make(chan struct{})
		if told {
			close(replaced)
		}
		r.put(schemas.Ref{Tenant: "t", ID: "soon"}, start.Add(15*time.Second), replaced)
		for i := range 10 {
			r.put(schemas.Ref{Tenant: "t", ID: strconv.Itoa(i)}, start.Add(time.Hour), replaced)
		}
		if !told {
			r.wakeTenant("t")
		}
		time.Sleep(20 * time.Second)
		assert.Zero(t, count())
		down.Store(false)
		time.Sleep(20 * time.Second)
		assert.Equal(t, 10, count())
		mu.Lock()
		for id, n := range woken {
			assert.Equal(t, 1, n, id)
		}
		assert.NotContains(t, woken, "soon")
		mu.Unlock()
		down.Store(true)
		r.put(schemas.Ref{Tenant: "t", ID: "never"}, start.Add(time.Hour), nil)
		r.wakeTenant("t")
		time.Sleep(time.Second)
		r.close() // nobody waits for a log that does not answer
		assert.Equal(t, 10, count())
	})
}
