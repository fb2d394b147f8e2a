package broker

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/fault"
	"weir/schemas"
)

// second opens another node's broker on the same server.
func (n *node) second(t *testing.T) *Broker {
	t.Helper()
	b, err := Open(t.Context(), Config{Server: n.server, Layout: layout, AttemptTimeout: embeddedAttemptTimeout})
	require.NoError(t, err)
	t.Cleanup(func() { b.Close(context.Background()) })
	return b
}

func TestBucketIsFenced(t *testing.T) {
	t.Parallel()
	k := open(t, embedded.Config{}, Config{}).Tokens()
	first, err := k.Put(t.Context(), "a", []byte("1"), 0)
	require.NoError(t, err)
	_, err = k.Put(t.Context(), "a", []byte("2"), 0)
	require.ErrorIs(t, err, fault.ErrFenced)
	_, err = k.Put(t.Context(), "b", []byte("2"), first)
	require.ErrorIs(t, err, fault.ErrFenced, "revisions are each key's own")
	next, err := k.Put(t.Context(), "a", []byte("2"), first)
	require.NoError(t, err)
	require.Greater(t, next, first)
	_, err = k.Put(t.Context(), "a", []byte("3"), first)
	require.ErrorIs(t, err, fault.ErrFenced)
	require.NoError(t, k.Barrier(t.Context()))
	all, err := k.Read(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, all, 1, "only the newest value of a key is kept")
	require.Equal(t, "a", all[0].Subject)
	require.Equal(t, "2", string(all[0].Data))
	require.Equal(t, next, all[0].Seq)
}

func TestBucketIsReadInPages(t *testing.T) {
	t.Parallel()
	k := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{}).Tokens()
	empty, err := k.Read(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Empty(t, empty)
	const count = 25
	for i := range count {
		_, err := k.Put(t.Context(), fmt.Sprintf("k%02d", i), []byte{byte(i)}, 0)
		require.NoError(t, err)
	}
	var after uint64
	var got []byte
	for _, want := range []int{10, 10, 5, 0} {
		page, err := k.Read(t.Context(), after, 10)
		require.NoError(t, err)
		require.Len(t, page, want)
		for _, r := range page {
			require.Equal(t, fmt.Sprintf("k%02d", len(got)), r.Subject)
			got, after = append(got, r.Data...), r.Seq
		}
	}
	require.Len(t, got, count)
}

// TestBucketIsSharedByNodes also has what another tool deletes arrive as a record
// without data.
func TestBucketIsSharedByNodes(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	other := n.second(t)
	got := make(chan schemas.Record, 10)
	stop, err := other.Tokens().Watch(func(r schemas.Record) { got <- r }, func() { t.Error("lost") })
	require.NoError(t, err)
	defer stop()
	rev, err := n.Tokens().Put(t.Context(), "a", []byte("1"), 0)
	require.NoError(t, err)
	r := <-got
	require.Equal(t, "a", r.Subject)
	require.Equal(t, rev, r.Seq)
	require.Equal(t, "1", string(r.Data))
	kv, err := n.js.KeyValue(t.Context(), schemas.TokenBucket)
	require.NoError(t, err)
	value, err := kv.Get(t.Context(), "a")
	require.NoError(t, err, "any tool can read it")
	require.Equal(t, "1", string(value.Value()))
	require.NoError(t, kv.Delete(t.Context(), "a"))
	r = <-got
	require.Equal(t, "a", r.Subject)
	require.Empty(t, r.Data)
	all, err := other.Tokens().Read(t.Context(), rev, 10)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Empty(t, all[0].Data)
}

func TestBucketOutlivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server, err := embedded.Start(embedded.Config{Dir: dir, Layout: layout})
	require.NoError(t, err)
	b, err := Open(t.Context(), Config{Server: server, Layout: layout, AttemptTimeout: embeddedAttemptTimeout})
	require.NoError(t, err)
	_, err = b.Tokens().Put(t.Context(), "a", []byte("1"), 0)
	require.NoError(t, err)
	b.Close(t.Context())
	require.NoError(t, server.Stop())

	k := open(t, embedded.Config{Dir: dir}, Config{}).Tokens()
	all, err := k.Read(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, all, 1)
}

func TestBucketOutOfReach(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	k := n.Tokens()
	require.NoError(t, n.js.DeleteKeyValue(t.Context(), schemas.TokenBucket))
	_, err := k.Read(t.Context(), 0, 10)
	require.Error(t, err, "a store that is gone is not an empty one")
	_, err = k.Put(t.Context(), "a", []byte("1"), 0)
	require.ErrorIs(t, err, fault.ErrUnavailable)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = k.Read(ctx, 0, 10)
	require.ErrorIs(t, err, fault.ErrUnavailable)
}

// TestBucketForgets one key, up to a revision, and leaves no mark of it.
func TestBucketForgets(t *testing.T) {
	t.Parallel()
	k := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{}).Tokens()
	put := func(key string, last uint64) uint64 {
		rev, err := k.Put(t.Context(), key, []byte(key), last)
		require.NoError(t, err)
		return rev
	}
	keys := func() (all []string) {
		records, err := k.Read(t.Context(), 0, 10)
		require.NoError(t, err)
		for _, r := range records {
			all = append(all, r.Subject)
		}
		return all
	}
	a, b := put("a", 0), put("b", 0)
	next := put("a", a)
	require.NoError(t, k.Forget(t.Context(), "a", a))
	require.Equal(t, []string{"b", "a"}, keys(), "somebody wrote it since")
	require.NoError(t, k.Forget(t.Context(), "a", next))
	require.NoError(t, k.Forget(t.Context(), "a", next))
	require.Equal(t, []string{"b"}, keys())
	require.NoError(t, k.Forget(t.Context(), "b", b))
	require.Empty(t, keys())
	require.Greater(t, put("c", 0), next, "revisions go on")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, k.Forget(ctx, "c", 99), fault.ErrUnavailable)
}
