package destination

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/bucket"
	"weir/schemas"
)

// TestRateIsShared: however many workers ask, no more calls begin than the entry lets,
// each at the time that it was told, and all of them begin.
func TestRateIsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, limits := bucket.New(), Limits{Count: 10, Per: time.Second}
		operations := bucket.New()
		nodes := []*node{join(t, "a", operations, shared, Config{}), join(t, "b", operations, shared, Config{})}
		start := time.Now()
		var begun []time.Duration
		type waiting struct {
			at time.Time
			n  int
		}
		var line []waiting
		for n := range 50 {
			turn, held, err := nodes[n%2].Acquire(t.Context(), limited(call("x"), limits))
			require.NoError(t, err)
			if held == nil {
				turn.Release()
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
			c := limited(call("x"), limits)
			c.Booked = w.at
			nodes[(w.n+1)%2].enters(t, c).Release() // whoever takes it up
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
		shared := bucket.New()
		n := join(t, "a", bucket.New(), shared, Config{})
		for range 800 {
			n.enters(t, limited(call("x"), Limits{Count: 1000, Per: time.Second, Concurrency: 100})).Release()
		}
		assert.LessOrEqual(t, shared.Written(), 10)
		before := shared.Written()
		for range 100 {
			n.enters(t, call("x")).Release()
		}
		assert.Equal(t, before, shared.Written(), "an entry without limits")
	})
}

// TestBookedTooLate is booked anew, and a time behind the deadline is nobody's.
func TestBookedTooLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := join(t, "a", bucket.New(), nil, Config{})
		limits := Limits{Count: 1, Per: time.Minute}
		n.enters(t, limited(call("x"), limits)).Release()
		first := n.waits(t, limited(call("y"), limits), schemas.WaitLimit)
		assert.Equal(t, time.Minute, time.Until(first.Until).Round(time.Millisecond))
		short := limited(call("z"), limits)
		short.Deadline = time.Now().Add(30 * time.Second)
		held := n.waits(t, short, schemas.WaitLimit)
		assert.False(t, held.Booked)
		time.Sleep(2 * time.Minute)
		late := limited(call("y"), limits)
		late.Booked = first.Until
		n.enters(t, late).Release() // it has its turn like everybody else
		n.waits(t, late, schemas.WaitLimit)
	})
}

// TestSeatsAreShared: no more calls are under way at a time than the entry lets, and a
// seat that is free is taken by whoever waits, here or elsewhere.
func TestSeatsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, operations := bucket.New(), bucket.New()
		limits := Limits{Concurrency: 3}
		a, b := join(t, "a", operations, shared, Config{}), join(t, "b", operations, shared, Config{})
		one, two := a.enters(t, limited(call("1"), limits)), a.enters(t, limited(call("2"), limits))
		three := b.enters(t, limited(call("3"), limits))
		a.waits(t, limited(call("4"), limits), schemas.WaitCapacity)
		b.waits(t, limited(call("5"), limits), schemas.WaitCapacity)
		one.Release()
		one.Release()
		synctest.Wait()
		assert.NotEmpty(t, append(a.ids(), b.ids()...), "somebody who waits is woken")
		again := b.enters(t, limited(call("5"), limits))
		a.waits(t, limited(call("4"), limits), schemas.WaitCapacity)
		for _, turn := range []*Permit{two, three, again} {
			turn.Release()
		}
		// While a seat is free for all, a process keeps those that it does not use up to its
		// next renewal.
		time.Sleep(10 * time.Second)
		for _, id := range []string{"6", "7", "8"} {
			defer a.enters(t, limited(call(id), limits)).Release()
		}
		b.waits(t, limited(call("9"), limits), schemas.WaitCapacity)
	})
}

// TestSeatsOfTheDead come back.
func TestSeatsOfTheDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, operations := bucket.New(), bucket.New()
		limits := Limits{Concurrency: 2}
		dead := New(operations, shared, Config{Worker: "dead"}) // it was never started, and renews nothing
		for range 2 {
			_, held, err := dead.Acquire(t.Context(), limited(call("1"), limits))
			require.NoError(t, err)
			require.Nil(t, held)
		}
		b := join(t, "b", operations, shared, Config{})
		b.waits(t, limited(call("2"), limits), schemas.WaitCapacity)
		time.Sleep(10*time.Second + time.Millisecond)
		turn := b.enters(t, limited(call("2"), limits))
		time.Sleep(time.Hour)
		synctest.Wait()
		c := join(t, "c", operations, shared, Config{})
		defer c.enters(t, limited(call("3"), limits)).Release()
		c.waits(t, limited(call("4"), limits), schemas.WaitCapacity)
		turn.Release()
	})
}

// TestAloneSeats wake whoever rests, one for one.
func TestAloneSeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := join(t, "a", bucket.New(), nil, Config{})
		limits := Limits{Concurrency: 1}
		turn := n.enters(t, limited(call("1"), limits))
		for _, id := range []string{"2", "3", "4"} {
			n.waits(t, limited(call(id), limits), schemas.WaitCapacity)
		}
		turn.Release()
		synctest.Wait()
		assert.Equal(t, []string{"2"}, n.ids())
		turn = n.enters(t, limited(call("2"), limits))
		turn.Release()
		synctest.Wait()
		assert.Equal(t, []string{"2", "3"}, n.ids())
	})
}

// TestStoreAway: nothing is called under a limit that nobody can count.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := bucket.New()
		n := join(t, "a", bucket.New(), shared, Config{})
		shared.Away(true)
		_, _, err := n.Acquire(t.Context(), limited(call("1"), Limits{Concurrency: 1}))
		require.Error(t, err)
		n.enters(t, call("2")).Release()
		shared.Away(false)
		n.enters(t, limited(call("1"), Limits{Concurrency: 1})).Release()
	})
}

// A slot that is released while the last renewal runs is free for others at once.
func TestASlotReleasedAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, limits := bucket.New(), Limits{Concurrency: 2}
		n, other := join(t, "a", bucket.New(), shared, Config{}), join(t, "b", bucket.New(), shared, Config{})
		turn := n.enters(t, limited(call("1"), limits))
		going, on := make(chan struct{}), make(chan struct{})
		shared.Hook(func() (error, bool) {
			shared.Hook(nil)
			close(going)
			<-on
			return nil, true
		})
		<-going
		turn.Release()
		stopped := make(chan struct{})
		go func() {
			n.Stop()
			close(stopped)
		}()
		synctest.Wait()
		close(on)
		<-stopped
		other.enters(t, limited(call("2"), limits))
		other.enters(t, limited(call("3"), limits))
	})
}
