package broker

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// TestWaiting counts what no worker has, of all and of one tenant, whether it lies in the
// queue of all or in one of its own.
func TestWaiting(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	count := func(tenant string) uint64 {
		ask := n.Waiting
		if tenant != "" {
			of, err := n.WaitingOf(t.Context(), tenant)
			require.NoError(t, err)
			return of
		}
		all, err := ask(t.Context())
		require.NoError(t, err)
		return all
	}
	require.Zero(t, count(""))
	require.Zero(t, count("a"))
	n.queue(t, "a", 0, 300)
	n.queue(t, "b", 0, 20)
	poll.Until(t, func() bool { return count("") == 320 && count("a") == 300 && count("b") == 20 })
	require.Zero(t, count("c"))

	_, out := n.subscribe(t, SubscriberConfig{Slots: 2, CrowdAfter: 64})
	poll.Until(t, func() bool { return len(n.crowds(t)) == 1 })
	// What is with nobody's handler but held here does not wait any more: slots, what is kept
	// ready, and as much for the crowd. What the queue has yet to pass over waits once.
	held := uint64(2 * (2 + 36))
	poll.Until(t, func() bool {
		a, b, all := count("a"), count("b"), count("")
		return a <= 300 && a >= 300-held && b <= 20 && all <= 320 && all >= 320-held
	})
	// What operators and the scaler see counts what is held too: all of it, and none twice.
	lag := func() uint64 {
		all, err := n.Lag(t.Context())
		require.NoError(t, err)
		require.Len(t, all, len(schemas.Kinds()))
		require.Zero(t, all[schemas.KindChat])
		return all[schemas.KindHTTP]
	}
	poll.Until(t, func() bool { return lag() == 320 })
	require.Len(t, n.crowds(t), 1, "the tenant still has a queue of its own")
	h := newHandled()
	close(h.hurry)
	go h.run(out)
	poll.Until(t, func() bool { return count("") == 0 && h.of("a") == 300 && h.of("b") == 20 })
	poll.Until(t, func() bool { return lag() == 0 && count("a") == 0 && count("b") == 0 })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := n.Lag(ended)
	require.Error(t, err)
}
