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
	"weir/processors/call"
	"weir/schemas"
)

// TestRestingIsBounded: those that others have woken are not kept for ever.
func TestRestingIsBounded(t *testing.T) {
	t.Parallel()
	r := newEarly(func(context.Context, schemas.Ref) error { return nil })
	replaced := make(chan struct{})
	put := func(id int, until time.Duration) {
		r.put(schemas.Ref{Tenant: "t", ID: strconv.Itoa(id)}, &call.Deferral{Until: time.Now().Add(until), Replaced: replaced})
	}
	for i := range 100 * sweep {
		put(i, -time.Second)
	}
	assert.LessOrEqual(t, len(r.actions[replaced]), sweep)
	for i := range 10 * sweep {
		put(-i, time.Hour)
	}
	assert.GreaterOrEqual(t, len(r.actions[replaced]), 10*sweep)
	r.stop()
	assert.Empty(t, r.actions)
}

// TestNobodyIsWokenBehindTheEnd: what is under way is waited for, and no more begins.
func TestNobodyIsWokenBehindTheEnd(t *testing.T) {
	t.Parallel()
	var woken atomic.Int32
	begun, free := make(chan struct{}), make(chan struct{})
	r := newEarly(func(context.Context, schemas.Ref) error {
		close(begun)
		<-free
		woken.Add(1)
		return nil
	})
	later, replaced := time.Now().Add(time.Hour), make(chan struct{})
	r.put(schemas.Ref{Tenant: "t", ID: "1"}, &call.Deferral{Until: later, Replaced: replaced})
	r.put(schemas.Ref{Tenant: "u", ID: "2"}, &call.Deferral{Until: later})
	close(replaced)
	<-begun
	go close(free)
	r.stop()
	assert.Equal(t, int32(1), woken.Load())
	r.put(schemas.Ref{Tenant: "t", ID: "1"}, &call.Deferral{Until: later, Replaced: replaced})
	r.stop()
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
		r := newEarly(func(ctx context.Context, ref schemas.Ref) error {
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
		put := func(id string, until time.Duration) {
			r.put(schemas.Ref{Tenant: "t", ID: id}, &call.Deferral{Until: start.Add(until), Replaced: replaced})
		}
		put("soon", 15*time.Second)
		for i := range 10 {
			put(strconv.Itoa(i), time.Hour)
		}
		if !told {
			close(replaced)
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
		put("never", time.Hour)
		time.Sleep(time.Second)
		r.stop() // nobody waits for a log that does not answer
		assert.Equal(t, 10, count())
	})
}
