package budget

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// TestManyAreWrittenAtOnce: while one write is under way, all that come wait for the next.
func TestManyAreWrittenAtOnce(t *testing.T) {
	t.Parallel()
	const many = 50
	b := open(schemas.Budget{Name: "b", Requests: many / 2})
	under, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b.shelf.Before = func(string) (bool, error) {
		once.Do(func() { close(under); <-release })
		return true, nil
	}
	var all sync.WaitGroup
	all.Go(func() { b.reserve(t, order("first")) })
	<-under
	var mu sync.Mutex
	granted := 1
	for i := range many {
		all.Go(func() {
			_, err := b.Reserve(t.Context(), order(strconv.Itoa(i)))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				granted++
			} else if _, refused := errors.AsType[*Refusal](err); !refused {
				t.Error(err)
			}
		})
	}
	l := b.enter(b.seats(order("a"))[0].key)
	defer b.leave(l)
	poll.Until(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.waiting) == many
	})
	close(release)
	all.Wait()
	require.Equal(t, many/2, granted)
	require.Equal(t, 2, b.shelf.Puts)
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

// TestACopyIsNoMoreThanThat: what another node has written is seen before anybody is
// refused, and before anybody is told that it holds.
func TestACopyIsNoMoreThanThat(t *testing.T) {
	t.Parallel()
	b := open(tokens(100))
	there := b.another()
	b.reserve(t, order("a"))
	require.NoError(t, there.Settle(t.Context(), order("a"), nil))
	b.reserve(t, order("b"))
	require.NoError(t, there.Settle(t.Context(), order("b"), nil))
	b.reserve(t, order("b"))
	require.Len(t, b.account(t, "t.b.").Holds, 1)
}

func TestLanesAreBounded(t *testing.T) {
	t.Parallel()
	b := open()
	held := b.enter("held")
	for i := range 2 * maxLanes {
		b.leave(b.enter(strconv.Itoa(i)))
	}
	require.Len(t, b.lanes, maxLanes)
	require.Same(t, held, b.lanes["held"])
}
