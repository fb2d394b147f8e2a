package destination_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/broker"
	"weir/internal/broker/embedded"
	"weir/internal/limits/destination"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

var layout = schemas.Layout{Partitions: 1}

// worker is a Limiter on a broker's connection of its own.
func worker(t *testing.T, server *embedded.Server, name string) *destination.Limiter {
	t.Helper()
	b, err := broker.Open(t.Context(), broker.Config{Server: server, Layout: layout, AttemptTimeout: 5 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { b.Close(context.Background()) })
	k := destination.New(b.Bucket(schemas.OperationBucket), b.Bucket(schemas.DestinationBucket), destination.Config{Worker: name})
	require.NoError(t, k.Start(t.Context()))
	t.Cleanup(k.Stop)
	return k
}

// TestWorkersShareABroker: seats, wishes of destinations and what operators decide are
// those of all workers, however each has come to know of them.
func TestWorkersShareABroker(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Layout: layout})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	one, two := worker(t, server, "one"), worker(t, server, "two")
	c := destination.Call{
		Ref: schemas.Ref{Tenant: "acme", Kind: schemas.KindHTTP, ID: "1"}, Entry: "api.example:1", Destination: "https://[2001:db8::1]:443",
		Limits: destination.Limits{Concurrency: 2}, Deadline: time.Now().Add(10 * time.Minute), Gives: time.Now().Add(10 * time.Minute),
	}
	enter := func(b *destination.Limiter) (*destination.Permit, string) {
		turn, held, err := b.Acquire(t.Context(), c)
		require.NoError(t, err)
		if held != nil {
			return nil, held.For
		}
		return turn, ""
	}
	in := func(b *destination.Limiter) *destination.Permit {
		turn, why := enter(b)
		require.Empty(t, why)
		return turn
	}
	waits := func(b *destination.Limiter, why string) func() bool {
		return func() bool {
			turn, got := enter(b)
			turn.Release()
			return got == why
		}
	}
	first, second := in(one), in(two)
	assert.True(t, waits(one, schemas.WaitCapacity)())
	assert.True(t, waits(two, schemas.WaitCapacity)())
	first.Release()
	poll.Until(t, waits(two, ""))
	second.Asked(t.Context(), time.Now().Add(4*time.Minute))
	second.Release()
	poll.Until(t, waits(one, schemas.WaitDestination))
	assert.Equal(t, c.Destination, one.Destinations()[0].Destination)

	_, err = two.Order(t.Context(), schemas.Operation{Do: schemas.OperationPause, Target: schemas.Target{Tenant: "acme"}, Reason: "tests"})
	require.NoError(t, err)
	poll.Until(t, waits(one, schemas.WaitPaused))
	_, err = one.Lift(t.Context(), schemas.OperationPause, schemas.Target{Tenant: "acme"})
	require.NoError(t, err)
	poll.Until(t, waits(two, schemas.WaitDestination))
	late := worker(t, server, "late")
	assert.True(t, waits(late, schemas.WaitDestination)())
	assert.Empty(t, late.Operations())
}
