package broker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/fault"
	"weir/schemas"
)

// TestBucketOfBudgets: it is there for good, takes what it is given however full the log is,
// tells nobody, and a key that was forgotten begins anew, whatever was known of it.
func TestBucketOfBudgets(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{MaxBytes: 1})
	n.usage.bytes.Add(2)
	k := n.Budgets()
	const key = "acme%2Einc.team.%.%.openai%2Fgpt-4%2E1"
	one, err := k.Put(t.Context(), key, []byte("1"), 0)
	require.NoError(t, err)
	two, err := k.Put(t.Context(), key, []byte("2"), one)
	require.NoError(t, err)
	_, err = k.Put(t.Context(), key, []byte("3"), one)
	require.ErrorIs(t, err, fault.ErrFenced)
	require.NoError(t, k.Forget(t.Context(), key, one))
	r, err := k.Get(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, key, r.Subject)
	require.Equal(t, two, r.Seq, "a write that came in between stays")

	require.NoError(t, k.Forget(t.Context(), key, two))
	_, err = k.Get(t.Context(), key)
	require.ErrorIs(t, err, fault.ErrNotFound)
	_, err = k.Put(t.Context(), key, []byte("3"), two)
	require.ErrorIs(t, err, fault.ErrFenced, "who has not heard of it looks again")
	three, err := k.Put(t.Context(), key, []byte("3"), 0)
	require.NoError(t, err)
	require.Greater(t, three, two)
	require.NoError(t, k.Barrier(t.Context()))

	s, err := n.js.Stream(t.Context(), "KV_"+schemas.BudgetBucket)
	require.NoError(t, err)
	cfg := s.CachedInfo().Config
	require.Zero(t, cfg.MaxAge)
	require.EqualValues(t, 1, cfg.MaxMsgsPerSubject)
	require.Nil(t, cfg.RePublish)
	_, err = k.Watch(func(schemas.Record) {}, nil)
	require.ErrorIs(t, err, errUnwatched)
}
