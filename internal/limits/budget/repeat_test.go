package budget

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
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
	for name, tc := range map[string]struct {
		first func(b *bench) error // runs in the first write, which is stored
		holds int
	}{
		"nobody was told that it was stored": {func(*bench) error { return fault.ErrUnavailable }, 0},
		"another worker was faster, and died": {func(b *bench) error {
			_, err := b.another().Reserve(t.Context(), order("a"))
			require.ErrorIs(t, err, errCrash)
			return nil
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
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

// TestAShorterAnswerOfAFurtherCall: what can be cut off takes what is left, in each account
// that bears it, wherever a worker dies on the way.
func TestAShorterAnswerOfAFurtherCall(t *testing.T) {
	t.Parallel()
	for crash := range 8 {
		t.Run(strconv.Itoa(crash), func(t *testing.T) {
			t.Parallel()
			b := open(schemas.Budget{Name: "wide", Tokens: 1_000}, schemas.Budget{Name: "tight", Tokens: 90})
			o := order("a")
			o.Elastic = true
			require.EqualValues(t, 50, b.reserve(t, o).Output)
			o.Spent = used(20, 0, 0)
			n := 0
			b.shelf.Before = func(string) (bool, error) {
				if n++; n == crash/2+1 {
					return crash%2 == 0, errCrash
				}
				return true, nil
			}
			g, err := b.Reserve(t.Context(), o)
			if err != nil {
				require.ErrorIs(t, err, errCrash)
				g, err = b.another().Reserve(t.Context(), o)
			}
			require.NoError(t, err)
			require.EqualValues(t, 30, g.Output)
			for _, begin := range []string{"t.wide.", "t.tight."} {
				require.EqualValues(t, 90, b.account(t, begin).Holds["a"].Tokens, begin)
			}
		})
	}
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

// TestTheDearestOfAShorterAnswer is another than that of the longest one.
func TestTheDearestOfAShorterAnswer(t *testing.T) {
	t.Parallel()
	o := order("a")
	o.Prompt, o.Output, o.Elastic = 1_000, 2_000, true
	o.Prices = []*schemas.ModelPrice{{Output: 100_000}, {Input: 50_000, Output: 60_000}}
	b := open(schemas.Budget{Name: "b", Nanos: 60_000})
	g := b.reserve(t, o)
	require.EqualValues(t, 166, g.Output)
	require.EqualValues(t, 50_000+166*60, b.account(t, "t.").Holds["a"].Nanos)
	wide := open(schemas.Budget{Name: "b", Nanos: 1 << 40})
	wide.reserve(t, o)
	require.EqualValues(t, 2_000*100, wide.account(t, "t.").Holds["a"].Nanos)
	o.Action, o.Prices = "c", append(o.Prices, nil)
	require.True(t, wide.refused(t, o).Unpriced)
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
