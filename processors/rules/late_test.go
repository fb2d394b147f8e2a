package rules_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/rules"
	"weir/internal/weirtest/harness"
	"weir/schemas"
)

// slow is a worker whose write is on its way, and does not arrive before release.
type slow struct {
	release chan struct{}
	ended   chan struct{}
}

func (r *env) slow(st *ledger.State) *slow {
	r.t.Helper()
	s, sent := &slow{make(chan struct{}), make(chan struct{})}, make(chan struct{})
	r.bucket.Hook(func() (error, bool) {
		close(sent)
		<-s.release
		return nil, true
	})
	worker := r.executor()
	go func() {
		defer close(s.ended)
		v, err := worker.Execute(r.t.Context(), st, harness.NoStop())
		assert.True(r.t, err != nil || v.Outcome != "")
	}()
	<-sent
	r.bucket.Hook(nil)
	return s
}

// arrive lets the write through, and waits for the worker's end.
func (s *slow) arrive() {
	close(s.release)
	<-s.ended
}

// TestVoidRefused: a set that cannot be put in its own place leaves open what will
// arrive.
func TestVoidRefused(t *testing.T) {
	t.Parallel()
	for _, told := range []error{fault.ErrTooLarge, rules.ErrUnreadable} {
		r := newEnv(t)
		st := r.begun(create(delay("n")))
		r.sets = closed{r.keeper, told}
		require.Equal(t, schemas.OutcomeFailed, r.perform(st).Outcome, "no other worker had begun")
		e := r.verdict(r.again(st))
		require.Equal(t, schemas.OutcomeUnknown, e.Outcome)
	}
}

// closed takes no sets.
type closed struct {
	*rules.Keeper

	err error
}

func (c closed) Put(context.Context, string, schemas.RuleSet, uint64) (rules.Snapshot, error) {
	return rules.Snapshot{}, c.err
}

// TestTurn: who waits for its turn hears that it is to end, and waits for nobody of
// another tenant.
func TestTurn(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	storing, release := make(chan struct{}), make(chan struct{})
	r.bucket.Hook(func() (error, bool) {
		close(storing)
		<-release
		return nil, true
	})
	worker := r.executor()
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
		_, err := worker.Execute(t.Context(), first, harness.NoStop())
		done <- err
	}()
	<-storing

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := worker.Execute(ctx, second, harness.NoStop())
	_, later := errors.AsType[*fault.RetryAfter](err)
	require.True(t, later)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, r.evidence(second.ID))

	third.Tenant = "other"
	v, err := worker.Execute(t.Context(), third, harness.NoStop())
	require.NoError(t, err)
	require.Equal(t, schemas.EtagMismatch, v.Code, "its own set has another etag")

	close(release)
	require.NoError(t, <-done)
	v, err = worker.Execute(t.Context(), second, harness.NoStop())
	require.NoError(t, err)
	require.Equal(t, schemas.EtagMismatch, v.Code)
}

// TestFencedByItself: a write is in, and its worker is told that another was first.
func TestFencedByItself(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	r.bucket.Hook(func() (error, bool) { return fault.ErrFenced, true })
	e := r.against(create(delay("a")))
	require.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
	require.Equal(t, r.etag(), e.result.RulesEtag)
	require.Equal(t, uint64(1), r.newest().Revision)
}
