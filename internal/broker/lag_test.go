package broker

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// TestLag counts what is queued and what is with a worker, until it is acknowledged.
func TestLag(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	of := func(k schemas.Kind) uint64 {
		lag, err := n.Lag(t.Context())
		require.NoError(t, err)
		require.Len(t, lag, len(schemas.Kinds()))
		return lag[k]
	}
	require.Zero(t, of(schemas.KindHTTP))
	n.put(t, claim("a", "x"))
	n.put(t, claim("b", "x"))
	poll.Until(t, func() bool { return of(schemas.KindHTTP) == 2 })
	require.Zero(t, of(schemas.KindChat))

	_, out := n.subscribe(t, SubscriberConfig{})
	first, second := next(t, out), next(t, out)
	require.Equal(t, uint64(2), of(schemas.KindHTTP), "they are with a worker")
	first.Ack()
	second.Ack()
	poll.Until(t, func() bool { return of(schemas.KindHTTP) == 0 })

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := n.Lag(ended)
	require.Error(t, err)
}
