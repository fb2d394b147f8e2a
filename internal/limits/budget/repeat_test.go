package budget

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// lasting is a budget for good, and behind it one of a minute for one request.
func lasting() []schemas.Budget {
	return []schemas.Budget{{Name: "total", Tokens: 1_000}, {Name: "minute", Window: time.Minute, Requests: 1}}
}

// TestARefusedRepeatFreesNothing that an earlier worker has held: its call was sent, and is
// to be charged.
func TestARefusedRepeatFreesNothing(t *testing.T) {
	t.Parallel()
	b := open(lasting()...)
	b.reserve(t, order("a"))
	b.pass(2 * time.Minute)
	b.reserve(t, order("b")) // the new window's only request
	again := b.another()
	r := again.refused(t, order("a"))
	require.Equal(t, "minute", r.Source)
	require.NoError(t, again.Settle(t.Context(), order("a"), used(40, 60, 0)))
	require.Equal(t, sum{1, 100, 0}, b.account(t, "t.total.").Used)
}

// TestWhoseHoldItIs where nobody knows whether a write was stored, or another was faster.
func TestWhoseHoldItIs(t *testing.T) {
	t.Parallel()
	type testCase struct {
		first func(b *bench) error // runs in the first write, which is stored
		holds int
	}
	table.Run(t, map[string]testCase{
		"nobody was told that it was stored": {func(*bench) error { return fault.ErrUnavailable }, 0},
		"another worker was faster, and died": {func(b *bench) error {
			_, err := b.another().Reserve(t.Context(), order("a"))
			require.ErrorIs(t, err, errCrash)
			return nil
		}, 1},
	}, func(t *testing.T, tc testCase) {
		b := open(schemas.Budget{Name: "total", Tokens: 1_000}, schemas.Budget{Name: "other", Requests: 1})
		n := 0
		b.shelf.Before = func(string) (bool, error) {
			switch n++; n {
			case 1:
				err := tc.first(b)
				b.set(b.targets(order("a"))[1].key(), []byte(`{"v":1,"used":{"r":1}}`)) // its request is gone
				return true, err
			case 3:
				return false, errCrash
			}
			return true, nil
		}
		require.Equal(t, "other", b.refused(t, order("a")).Source)
		require.Len(t, b.account(t, "t.total.").Holds, tc.holds)
	})
}

// TestFurtherCalls are held on top of what the earlier ones have used.
func TestFurtherCalls(t *testing.T) {
	t.Parallel()
	b := open(schemas.Budget{Name: "b", Tokens: 150, Nanos: 400})
	o := order("a")
	b.reserve(t, o)
	o.Spent = used(20, 0, 30)
	g := b.reserve(t, o)
	require.EqualValues(t, 60, g.Output)
	held := hold{Tokens: 120, Nanos: cost + 30, Output: 60, Spent: sum{0, 20, 30}, Until: o.Until.UnixMilli()}
	require.Equal(t, held, b.account(t, "t.").Holds["a"])
	puts := b.shelf.Puts
	b.reserve(t, o)
	first := o
	first.Spent = nil
	b.reserve(t, first)
	require.Equal(t, puts, b.shelf.Puts, "neither a repeat nor who knows of less changes anything")

	o.Spent = used(51, 0, 60)
	r := b.refused(t, o)
	require.Equal(t, []any{schemas.BudgetTokens, true}, []any{r.What, r.Spent})
	require.Equal(t, held, b.account(t, "t.").Holds["a"], "what was used is still to be charged")
	b.end(t, o, used(51, 0, 60))
	require.Equal(t, sum{1, 51, 60}, b.account(t, "t.").Used)
	require.Error(t, b.refused(t, o), "a call behind the end would be charged to nobody")
	b.reserve(t, first)
	require.Empty(t, b.account(t, "t.").Holds)
}

// TestARefusalKeepsALateHold, also where it is written with what others do: an end that
// comes after all is still charged.
func TestARefusalKeepsALateHold(t *testing.T) {
	t.Parallel()
	a := newAccount()
	c := order("a").claim()
	a.Holds["a"] = c.hold(60)
	_, changed, why := a.reserve(c, sum{Tokens: 10}, c.Until.Add(time.Minute))
	require.False(t, changed)
	require.NotNil(t, why)
	require.True(t, a.settle("a", used(1, 1, 1)))
	require.Equal(t, sum{1, 2, 1}, a.Used)
}

// TestWhoKnowsOfLess does not take from a hold what earlier calls have used.
func TestWhoKnowsOfLess(t *testing.T) {
	t.Parallel()
	a := newAccount()
	c := order("a").claim()
	c.spent = sum{0, 20, 30}
	a.Holds["a"] = c.hold(60)
	require.True(t, a.shrink(order("a").claim(), 10))
	require.Equal(t, c.hold(10), a.Holds["a"])
}

// TestWhoeverLeavesIsNotWaitedFor, and harms none of those who wait.
func TestWhoeverLeavesIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	b := open(tokens(1_000))
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan struct{})
	var once sync.Once
	b.shelf.Before = func(string) (bool, error) {
		once.Do(func() { cancel(); <-left })
		return true, nil
	}
	_, err := b.Reserve(ctx, order("a"))
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled)
	close(left)
	b.reserve(t, order("b"))
	require.Len(t, b.account(t, "t.b.").Holds, 2, "it is held until somebody goes on, or its time is over")
}
