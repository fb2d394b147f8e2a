package processors

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"weir/schemas"
)

// TestRestingIsBounded: those that others have woken are not kept for ever.
func TestRestingIsBounded(t *testing.T) {
	t.Parallel()
	r := newResting(func(context.Context, schemas.Ref) error { return nil })
	past := time.Now().Add(-time.Second)
	for i := range 100 * fewest {
		r.put(t.Context(), schemas.Ref{Tenant: "t", ID: strconv.Itoa(i)}, past, nil)
	}
	assert.LessOrEqual(t, len(r.byTenant["t"].until), fewest)
	later := time.Now().Add(time.Hour)
	for i := range 10 * fewest {
		r.put(t.Context(), schemas.Ref{Tenant: "t", ID: "l" + strconv.Itoa(i)}, later, nil)
	}
	assert.GreaterOrEqual(t, len(r.byTenant["t"].until), 10*fewest)
}

// TestNobodyIsWokenBehindTheEnd: what is under way is waited for, and no more begins.
func TestNobodyIsWokenBehindTheEnd(t *testing.T) {
	t.Parallel()
	var woken atomic.Int32
	begun, free := make(chan struct{}), make(chan struct{})
	r := newResting(func(context.Context, schemas.Ref) error {
		close(begun)
		<-free
		woken.Add(1)
		return nil
	})
	later := time.Now().Add(time.Hour)
	r.put(t.Context(), schemas.Ref{Tenant: "t", ID: "1"}, later, nil)
	r.put(t.Context(), schemas.Ref{Tenant: "u", ID: "2"}, later, nil)
	r.rouse("t")
	<-begun
	go close(free)
	r.close()
	assert.Equal(t, int32(1), woken.Load())
	r.rouse("u")
	r.close()
	assert.Equal(t, int32(1), woken.Load())
}
