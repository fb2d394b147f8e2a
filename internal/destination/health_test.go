package destination

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/shelf"
	"weir/schemas"
)

// TestAskedToBeLeftAlone: one answer holds every worker back until then, and not longer.
func TestAskedToBeLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, operations := shelf.New(), shelf.New()
		a, b := join(t, "a", operations, shared, Config{}), join(t, "b", operations, shared, Config{})
		turn := a.enters(t, call("1"))
		turn.Asked(t.Context(), time.Now().Add(20*time.Second))
		turn.Leave()
		for _, n := range []*node{a, b} {
			held := n.waits(t, call("2"), schemas.WaitDestination)
			assert.InDelta(t, 22.5, time.Until(held.Until).Seconds(), 2.6)
		}
		other := call("3")
		other.Destination = "https://api.example:8443"
		b.enters(t, other).Leave()
		other.Entry, other.Destination = "other", call("3").Destination
		b.enters(t, other).Leave()
		own := call("4")
		own.Own = true
		b.enters(t, own).Leave()
		require.Equal(t, []schemas.DestinationView{{
			Entry: "api", Destination: "https://api.example:443", State: schemas.DestinationAsked, Until: time.Now().Add(20 * time.Second).UTC(),
			Tenants: []string{call("1").Ref.Tenant},
		}}, b.Destinations())

		late := join(t, "c", operations, shared, Config{}) // who comes later finds it stored
		late.waits(t, call("5"), schemas.WaitDestination)
		time.Sleep(20 * time.Second)
		for _, n := range []*node{a, b, late} {
			n.enters(t, call("2")).Leave()
			assert.Empty(t, n.Destinations())
		}
	})
}

// TestOneTenantIsAsked: a destination that asks one tenant to leave it alone is called for others. Once it
// asked two, all leave it alone for as long as both do, and at most 30 s on the word of one.
func TestOneTenantIsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, operations := shelf.New(), shelf.New()
		a, b := join(t, "a", operations, shared, Config{}), join(t, "b", operations, shared, Config{})
		of := func(tenant string) Call {
			c := call(tenant)
			c.Ref.Tenant = tenant
			return c
		}
		asked := func(n *node, tenant string, wish time.Duration) {
			turn := n.enters(t, of(tenant))
			turn.Asked(t.Context(), time.Now().Add(wish))
			turn.Leave()
		}
		first, second := b.enters(t, of("second")), b.enters(t, of("third"))
		asked(a, "first", 299*time.Second)
		for _, n := range []*node{a, b} {
			n.waits(t, of("first"), schemas.WaitDestination)
			n.enters(t, of("other")).Leave()
		}
		first.Asked(t.Context(), time.Now().Add(time.Second))
		first.Leave()
		a.waits(t, of("other"), schemas.WaitDestination)
		require.Empty(t, a.Destinations()[0].Tenants, "all leave it alone")
		time.Sleep(30 * time.Second)
		for _, n := range []*node{a, b} {
			n.enters(t, of("other")).Leave()
			n.enters(t, of("second")).Leave()
			n.waits(t, of("first"), schemas.WaitDestination)
		}
		second.Asked(t.Context(), time.Now().Add(100*time.Second))
		second.Leave()
		time.Sleep(99 * time.Second)
		a.waits(t, of("other"), schemas.WaitDestination)
		time.Sleep(time.Second)
		a.enters(t, of("other")).Leave()
		time.Sleep(200 * time.Second)
		a.enters(t, of("first")).Leave()
	})
}

// TestWishesThatAreNone hold nobody back.
func TestWishesThatAreNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := join(t, "a", shelf.New(), nil, Config{Longest: time.Minute})
		for _, wish := range []time.Duration{-time.Second, 0, time.Minute + 1, 99999999 * time.Second} {
			turn := n.enters(t, call("1"))
			turn.Asked(t.Context(), time.Now().Add(wish))
			turn.Leave()
		}
		n.enters(t, call("1")).Leave()
	})
}

// TestBreaker: failures in a row, wherever they happen, have everybody leave the
// destination alone; one call of one worker sees, and those that rest are woken.
func TestBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, operations := shelf.New(), shelf.New()
		cfg := Config{Failures: 16, Quarantine: 10 * time.Second}
		a, b := join(t, "a", operations, shared, cfg), join(t, "b", operations, shared, cfg)
		failed := func(n *node) {
			turn := n.enters(t, call("1"))
			turn.Failed(t.Context())
			turn.Leave()
		}
		for range 15 {
			failed(a)
		}
		turn := b.enters(t, call("1"))
		turn.Well(t.Context())
		turn.Leave()
		for range 8 {
			failed(a)
			failed(b)
		}
		a.waits(t, call("2"), schemas.WaitDestination)
		b.waits(t, call("3"), schemas.WaitDestination)
		assert.Equal(t, schemas.DestinationOpen, a.Destinations()[0].State)

		time.Sleep(10 * time.Second)
		probe := a.enters(t, call("2"))
		a.waits(t, call("4"), schemas.WaitDestination)
		b.waits(t, call("3"), schemas.WaitDestination)
		assert.Equal(t, schemas.DestinationTrying, b.Destinations()[0].State)
		probe.Failed(t.Context())
		probe.Leave()
		b.waits(t, call("3"), schemas.WaitDestination)

		time.Sleep(10 * time.Second)
		probe = b.enters(t, call("3"))
		a.waits(t, call("5"), schemas.WaitDestination)
		probe.Well(t.Context())
		probe.Leave()
		synctest.Wait()
		assert.Contains(t, a.ids(), "5")
		a.enters(t, call("5")).Leave()
		assert.Empty(t, a.Destinations())
		failed(a)
		a.enters(t, call("5")).Leave() // it is counted from the beginning
	})
}

// TestProbes that show nothing, and those whose worker died, are followed by another.
func TestProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, operations := shelf.New(), shelf.New()
		cfg := Config{Failures: 1}
		a, b := join(t, "a", operations, shared, cfg), join(t, "b", operations, shared, cfg)
		turn := a.enters(t, call("1"))
		turn.Failed(t.Context())
		turn.Leave()
		time.Sleep(10 * time.Second)
		a.enters(t, call("1")).Leave() // it was not made
		_ = b.enters(t, call("2"))     // its worker dies
		a.waits(t, call("1"), schemas.WaitDestination)
		time.Sleep(30 * time.Second)
		turn = a.enters(t, call("1"))
		turn.Asked(t.Context(), time.Now().Add(time.Second)) // neutral
		turn.Leave()
		time.Sleep(time.Second)
		turn = b.enters(t, call("2"))
		turn.Well(t.Context())
		turn.Leave()
		a.enters(t, call("1")).Leave()
		a.enters(t, call("2")).Leave()
	})
}

// TestAloneCountsExactly.
func TestAloneCountsExactly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := join(t, "a", shelf.New(), nil, Config{})
		for range 99 {
			turn := n.enters(t, call("1"))
			turn.Failed(t.Context())
			turn.Leave()
		}
		turn := n.enters(t, call("1"))
		turn.Failed(t.Context())
		turn.Leave()
		n.waits(t, call("1"), schemas.WaitDestination)
	})
}
