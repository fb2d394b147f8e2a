package broker

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// TestWaiting counts what no worker has, of all and of one tenant, also what was put behind others.
func TestWaiting(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	count := func(tenant string) uint64 {
		if tenant == "" {
			return must(n.Waiting(t.Context()))(t)
		}
		return must(n.WaitingOf(t.Context(), tenant))(t)
	}
	require.Zero(t, count(""))
	require.Zero(t, count("a"))
	for i := range 320 {
		tenant, id := "a", strconv.Itoa(i)
		if i >= 300 {
			tenant = "b"
		}
		n.put(t, claimOf(schemas.Ref{Tenant: tenant, Kind: schemas.KindHTTP, ID: id}, "x"))
	}
	poll.Until(t, func() bool { return count("") == 320 && count("a") == 300 && count("b") == 20 })
	require.Zero(t, count("c"))

	out := n.subscribeAll(t, SubscriberConfig{Slots: 2, Shared: true})
	// What is held here does not wait any more; what was put behind others does.
	const held = 2 + 2*2
	poll.Until(t, func() bool {
		a, b, all := count("a"), count("b"), count("")
		return a <= 300 && a >= 300-held && b <= 20 && b >= 20-held && all <= 320 && all >= 320-held
	})
	// What operators and the scaler see counts what is held too.
	lag := func() uint64 {
		all := must(n.Lag(t.Context()))(t)
		return all[schemas.QueueNew] + all[schemas.QueueOverflow]
	}
	poll.Until(t, func() bool { return lag() == 320 })
	for range 320 {
		next(t, out).Ack()
	}
	poll.Until(t, func() bool { return lag() == 0 && count("a") == 0 && count("b") == 0 })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := n.Lag(ended)
	require.Error(t, err)
}
