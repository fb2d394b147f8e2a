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

// TestRateIsShared: however many workers ask, no more calls begin than the entry lets,
// each at the time that it was told, and all of them begin.
func TestRateIsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, limits := shelf.New(), Limits{Count: 10, Per: time.Second}
		operations := shelf.New()
		nodes := []*node{join(t, "a", operations, shared, Config{}), join(t, "b", operations, shared, Config{})}
		start := time.Now()
		var begun []time.Duration
		type waiting struct {
			at time.Time
			n  int
		}
		var line []waiting
		for n := range 50 {
			turn, held, err := nodes[n%2].Enter(t.Context(), call("x").limited(limits))
			require.NoError(t, err)
			if held == nil {
				turn.Leave()
				begun = append(begun, time.Since(start))
				continue
			}
			require.Equal(t, schemas.WaitLimit, held.For)
			require.True(t, held.Booked)
			line = append(line, waiting{held.Until, n})
		}
		assert.Len(t, begun, 10, "a second's worth may begin at once")
		for _, w := range line {
			time.Sleep(time.Until(w.at))
			c := call("x").limited(limits)
			c.Booked = w.at
			nodes[(w.n+1)%2].enters(t, c).Leave() // whoever takes it up
			begun = append(begun, time.Since(start))
		}
		for i := range begun[10:] {
			assert.Equal(t, time.Duration(i+1)*100*time.Millisecond, begun[10+i].Round(time.Millisecond))
		}
	})
}

// TestFarFromTheLimit: not every call has to ask.
func TestFarFromTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := shelf.New()
		n := join(t, "a", shelf.New(), shared, Config{})
		for range 800 {
			n.enters(t, call("x").limited(Limits{Count: 1000, Per: time.Second, Concurrency: 100})).Leave()
		}
		assert.LessOrEqual(t, shared.Written(), 10)
		before := shared.Written()
		for range 100 {
			n.enters(t, call("x")).Leave()
		}
		assert.Equal(t, before, shared.Written(), "an entry without limits")
	})
}

// TestBookedTooLate is booked anew, and a time behind the deadline is nobody's.
func TestBookedTooLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := join(t, "a", shelf.New(), nil, Config{})
		limits := Limits{Count: 1, Per: time.Minute}
		n.enters(t, call("x").limited(limits)).Leave()
		first := n.waits(t, call("y").limited(limits), schemas.WaitLimit)
		assert.Equal(t, time.Minute, time.Until(first.Until).Round(time.Millisecond))
		short := call("z").limited(limits)
		short.Deadline = time.Now().Add(30 * time.Second)
		held := n.waits(t, short, schemas.WaitLimit)
		assert.False(t, held.Booked)
		time.Sleep(2 * time.Minute)
		late := call("y").limited(limits)
		late.Booked = first.Until
		n.enters(t, late).Leave() // it has its turn like everybody else
		n.waits(t, late, schemas.WaitLimit)
	})
}

// TestSeatsAreShared: no more calls are under way at a time than the entry lets, and a
// seat that is free is taken by whoever waits, here or elsewhere.
func TestSeatsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, operations := shelf.New(), shelf.New()
		limits := Limits{Concurrency: 3}
		a, b := join(t, "a", operations, shared, Config{}), join(t, "b", operations, shared, Config{})
		one, two := a.enters(t, call("1").limited(limits)), a.enters(t, call("2").limited(limits))
		three := b.enters(t, call("3").limited(limits))
		a.waits(t, call("4").limited(limits), schemas.WaitCapacity)
		b.waits(t, call("5").limited(limits), schemas.WaitCapacity)
		one.Leave()
		one.Leave()
		synctest.Wait()
		assert.NotEmpty(t, append(a.ids(), b.ids()...), "somebody who waits is woken")
		again := b.enters(t, call("5").limited(limits))
		a.waits(t, call("4").limited(limits), schemas.WaitCapacity)
		for _, turn := range []*Turn{two, three, again} {
			turn.Leave()
		}
		synctest.Wait()
		for _, id := range []string{"6", "7", "8"} {
			defer a.enters(t, call(id).limited(limits)).Leave()
		}
		b.waits(t, call("9").limited(limits), schemas.WaitCapacity)
	})
}

// TestSeatsOfTheDead come back.
func TestSeatsOfTheDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, operations := shelf.New(), shelf.New()
		limits := Limits{Concurrency: 2}
		dead := New(operations, shared, Config{Worker: "dead"}) // it was never started, and renews nothing
		for range 2 {
			_, held, err := dead.Enter(t.Context(), call("1").limited(limits))
			require.NoError(t, err)
			require.Nil(t, held)
		}
		b := join(t, "b", operations, shared, Config{})
		b.waits(t, call("2").limited(limits), schemas.WaitCapacity)
		time.Sleep(10*time.Second + time.Millisecond)
		turn := b.enters(t, call("2").limited(limits))
		time.Sleep(time.Hour)
		synctest.Wait()
		c := join(t, "c", operations, shared, Config{})
		defer c.enters(t, call("3").limited(limits)).Leave()
		c.waits(t, call("4").limited(limits), schemas.WaitCapacity)
		turn.Leave()
	})
}

// TestAloneSeats wake whoever rests, one for one.
func TestAloneSeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := join(t, "a", shelf.New(), nil, Config{})
		limits := Limits{Concurrency: 1}
		turn := n.enters(t, call("1").limited(limits))
		for _, id := range []string{"2", "3", "4"} {
			n.waits(t, call(id).limited(limits), schemas.WaitCapacity)
		}
		turn.Leave()
		synctest.Wait()
		assert.Equal(t, []string{"2"}, n.ids())
		turn = n.enters(t, call("2").limited(limits))
		turn.Leave()
		synctest.Wait()
		assert.Equal(t, []string{"2", "3"}, n.ids())
	})
}

// TestStoreAway: nothing is called under a limit that nobody can count.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := shelf.New()
		n := join(t, "a", shelf.New(), shared, Config{})
		shared.Away(true)
		_, _, err := n.Enter(t.Context(), call("1").limited(Limits{Concurrency: 1}))
		require.Error(t, err)
		n.enters(t, call("2")).Leave()
		shared.Away(false)
		n.enters(t, call("1").limited(Limits{Concurrency: 1})).Leave()
	})
}
