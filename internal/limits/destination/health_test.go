package destination

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/bucket"
	"weir/schemas"
)

// TestAskedToBeLeftAlone: one answer holds every worker back until then, and not longer.
func TestAskedToBeLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, operations := bucket.New(), bucket.New()
		a, b := join(t, "a", operations, shared, Config{}), join(t, "b", operations, shared, Config{})
		asksFor(t, a.enters(t, call("1")), 20*time.Second)
		for _, n := range []*node{a, b} {
			held := n.waits(t, call("2"), schemas.WaitDestination)
			assert.InDelta(t, 22.5, time.Until(held.Until).Seconds(), 2.6)
		}
		other := call("3")
		other.Destination = "https://api.example:8443"
		b.enters(t, other).Release()
		other.Entry, other.Destination = "other", call("3").Destination
		b.enters(t, other).Release()
		own := call("4")
		own.Own = true
		b.enters(t, own).Release()
		require.Equal(t, []schemas.DestinationView{{
			Entry: "api", Destination: "https://api.example:443", State: schemas.DestinationAsked, Until: time.Now().Add(20 * time.Second).UTC(),
			Tenants: []string{call("1").Ref.Tenant},
		}}, b.Destinations())

		late := join(t, "c", operations, shared, Config{}) // who comes later finds it stored
		late.waits(t, call("5"), schemas.WaitDestination)
		time.Sleep(20 * time.Second)
		for _, n := range []*node{a, b, late} {
			n.enters(t, call("2")).Release()
			assert.Empty(t, n.Destinations())
		}
	})
}

// TestOneTenantIsAsked: a destination that asks one tenant to leave it alone is called for others. Once it
// asked two, all leave it alone for as long as both do, and at most 30 s on the word of one.
func TestOneTenantIsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, operations := bucket.New(), bucket.New()
		a, b := join(t, "a", operations, shared, Config{}), join(t, "b", operations, shared, Config{})
		first, second := b.enters(t, of("second")), b.enters(t, of("third"))
		asksFor(t, a.enters(t, of("first")), 299*time.Second)
		for _, n := range []*node{a, b} {
			n.waits(t, of("first"), schemas.WaitDestination)
			n.enters(t, of("other")).Release()
		}
		asksFor(t, first, time.Second)
		a.waits(t, of("other"), schemas.WaitDestination)
		require.Empty(t, a.Destinations()[0].Tenants, "all leave it alone")
		time.Sleep(30 * time.Second)
		for _, n := range []*node{a, b} {
			n.enters(t, of("other")).Release()
			n.enters(t, of("second")).Release()
			n.waits(t, of("first"), schemas.WaitDestination)
		}
		asksFor(t, second, 100*time.Second)
		time.Sleep(99 * time.Second)
		a.waits(t, of("other"), schemas.WaitDestination)
		time.Sleep(time.Second)
		a.enters(t, of("other")).Release()
		time.Sleep(200 * time.Second)
		a.enters(t, of("first")).Release()
	})
}

// TestTheWordOfOneEnds: a tenant that was asked to wait long, and another that is asked to again and again for a
// moment, do not hold up a third for longer than 30 s in all.
func TestTheWordOfOneEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := join(t, "a", bucket.New(), nil, Config{})
		again := n.enters(t, of("first")) // under way when the tenant is asked
		asksFor(t, n.enters(t, of("first")), 200*time.Second)
		asksFor(t, n.enters(t, of("second")), time.Second)
		time.Sleep(20 * time.Second)
		n.waits(t, of("third"), schemas.WaitDestination)
		asksFor(t, again, 280*time.Second)
		time.Sleep(11 * time.Second)
		for range 8 {
			asksFor(t, n.enters(t, of("second")), time.Second)
			n.waits(t, of("third"), schemas.WaitDestination) // two were asked
			time.Sleep(time.Second)
			n.enters(t, of("third")).Release()
			time.Sleep(30 * time.Second)
		}
		n.waits(t, of("first"), schemas.WaitDestination)
	})
}

// TestManyTenantsAreAsked: those that are remembered can be asked for longer, and others when there is room again.
func TestManyTenantsAreAsked(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	var h health
	for i := range mostAsked {
		require.True(t, h.ask(strconv.Itoa(i), now.Add(time.Minute), now))
	}
	require.False(t, h.ask("other", now.Add(time.Minute), now))
	require.True(t, h.ask("5", now.Add(2*time.Minute), now))
	_, until := h.at("5", now)
	require.Equal(t, now.Add(2*time.Minute), until)
	require.True(t, h.ask("other", now.Add(2*time.Minute), now.Add(time.Minute)))
}

// TestSlotsAreForgotten, whatever their destinations had answered, once that does not matter any more.
func TestSlotsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := join(t, "a", bucket.New(), nil, Config{})
		known := func(name string) int {
			c := call("1")
			c.Destination = name
			n.enters(t, c).Release()
			n.mu.Lock()
			defer n.mu.Unlock()
			return len(n.endpoints)
		}
		for i := range mostEndpoints {
			c := call("1")
			c.Destination = strconv.Itoa(i)
			turn := n.enters(t, c)
			switch i {
			case 0:
				turn.Asked(t.Context(), time.Now().Add(5*time.Minute))
			case 1:
				turn.Failed(t.Context())
			}
			turn.Release()
		}
		require.Equal(t, mostEndpoints+1, known("after 0 min"))
		time.Sleep(2 * time.Minute)
		require.Equal(t, 3, known("after 2 min"), "a wish is in force, and a failure counts")
	})
}

// TestWishesThatAreNone hold nobody back.
func TestWishesThatAreNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := join(t, "a", bucket.New(), nil, Config{})
		for _, wish := range []time.Duration{-time.Second, 0, longest + 1, 99999999 * time.Second} {
			asksFor(t, n.enters(t, call("1")), wish)
		}
		n.enters(t, call("1")).Release()
	})
}

// TestBreaker: failures in a row, wherever they happen, have everybody leave the
// destination alone; one call of one worker sees, and those that rest are woken.
func TestBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, operations := bucket.New(), bucket.New()
		cfg := Config{Failures: 16}
		a, b := join(t, "a", operations, shared, cfg), join(t, "b", operations, shared, cfg)
		for range 15 {
			fails(t, a)
		}
		turn := b.enters(t, call("1"))
		turn.Succeeded(t.Context())
		turn.Release()
		for range 8 {
			fails(t, a)
			fails(t, b)
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
		probe.Release()
		b.waits(t, call("3"), schemas.WaitDestination)

		time.Sleep(10 * time.Second)
		probe = b.enters(t, call("3"))
		a.waits(t, call("5"), schemas.WaitDestination)
		probe.Succeeded(t.Context())
		probe.Release()
		synctest.Wait()
		assert.Contains(t, a.ids(), "5")
		a.enters(t, call("5")).Release()
		assert.Empty(t, a.Destinations())
		fails(t, a)
		a.enters(t, call("5")).Release() // it is counted from the beginning
	})
}

// TestProbes that show nothing, and those whose worker died, are followed by another.
func TestProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, operations := bucket.New(), bucket.New()
		cfg := Config{Failures: 1}
		a, b := join(t, "a", operations, shared, cfg), join(t, "b", operations, shared, cfg)
		fails(t, a)
		time.Sleep(10 * time.Second)
		a.enters(t, call("1")).Release() // it was not made
		_ = b.enters(t, call("2"))       // its worker dies
		a.waits(t, call("1"), schemas.WaitDestination)
		time.Sleep(30 * time.Second)
		turn := a.enters(t, call("1"))
		turn.Asked(t.Context(), time.Now().Add(time.Second)) // neutral
		turn.Release()
		time.Sleep(time.Second)
		turn = b.enters(t, call("2"))
		turn.Succeeded(t.Context())
		turn.Release()
		a.enters(t, call("1")).Release()
		a.enters(t, call("2")).Release()
	})
}
