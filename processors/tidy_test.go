package processors

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

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
