package rules_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/rules"
	"weir/schemas"
)

// counted counts what is asked of a keeper.
type counted struct {
	*rules.Keeper

	mu                    sync.Mutex
	newest, after, stored int
	// storing is called before the first set is stored.
	storing func()
}

func (c *counted) count(n *int) (before int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
	return *n - 1
}

func (c *counted) Newest(ctx context.Context, tenant string) (rules.Snapshot, error) {
	c.count(&c.newest)
	return c.Keeper.Newest(ctx, tenant)
}

func (c *counted) After(ctx context.Context, tenant string, revision uint64) (rules.Snapshot, error) {
	c.count(&c.after)
	return c.Keeper.After(ctx, tenant, revision)
}

func (c *counted) Put(ctx context.Context, tenant string, doc schemas.RuleSet, revision uint64) (rules.Snapshot, error) {
	if c.count(&c.stored) == 0 {
		c.storing()
	}
	return c.Keeper.Put(ctx, tenant, doc, revision)
}

// TestLosersAreCheap: of many writers with one etag one makes a set and stores it,
// and the others learn from the newest etag alone that they have lost.
func TestLosersAreCheap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const writers = 20
		r := newRoom(t)
		sets := &counted{Keeper: r.keeper, storing: synctest.Wait} // until the others wait, or have come as far
		r.sets = sets
		etag := r.etag()
		worker := r.performer()
		codes := make([]schemas.Code, writers)
		var wg sync.WaitGroup
		for i := range writers {
			o := create(delay(fmt.Sprint("w", i)))
			o.IfMatch = etag
			st := r.claim(o)
			r.start(st)
			wg.Go(func() {
				v, err := worker.Perform(t.Context(), st, asked{})
				if err == nil {
					codes[i] = v.Code
				}
			})
		}
		wg.Wait()
		won := 0
		for _, code := range codes {
			if code == "" {
				won++
				continue
			}
			require.Equal(t, schemas.EtagMismatch, code)
		}
		require.Equal(t, []int{1, 1, writers, 0}, []int{won, sets.stored, sets.newest, sets.after})
	})
}

// TestTurn: who waits for its turn hears that it is to end, and waits for nobody of
// another tenant.
func TestTurn(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	storing, release := make(chan struct{}), make(chan struct{})
	r.sets = &counted{Keeper: r.keeper, storing: func() {
		close(storing)
		<-release
	}}
	worker := r.performer()
	order := create(delay("a"))
	order.IfMatch = r.etag()
	claim := func() *ledger.State {
		st := r.claim(order)
		r.start(st)
		return st
	}
	first, second, third := claim(), claim(), claim()
	done := make(chan error, 1)
	go func() {
		_, err := worker.Perform(t.Context(), first, asked{})
		done <- err
	}()
	<-storing

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := worker.Perform(ctx, second, asked{})
	_, later := errors.AsType[*fault.Later](err)
	require.True(t, later)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, r.evidence(second.ID))

	third.Tenant = "other"
	v, err := worker.Perform(t.Context(), third, asked{})
	require.NoError(t, err)
	require.Equal(t, schemas.EtagMismatch, v.Code, "its own set has another etag")

	close(release)
	require.NoError(t, <-done)
	v, err = worker.Perform(t.Context(), second, asked{})
	require.NoError(t, err)
	require.Equal(t, schemas.EtagMismatch, v.Code)
}

// TestFencedByItself: a write is in, and its worker is told that another was first.
func TestFencedByItself(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	o := create(delay("a"))
	o.IfMatch = r.etag()
	r.bucket.hook(func() (error, bool) { return fault.ErrFenced, true })
	e := r.try(o)
	require.NoError(t, e.err)
	require.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
	require.Equal(t, r.etag(), e.result.RulesEtag)
	require.Equal(t, uint64(1), r.newest().Revision)
}
