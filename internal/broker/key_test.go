package broker

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/schemas"
)

// TestKeyIsDurableBeforeUse: nobody gets it, whether they have made it or found it, before it would
// survive what the durability promises.
func TestKeyIsDurableBeforeUse(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	for range 2 {
		before := n.metrics.get(&n.metrics.barriers)
		must(n.SealKey(t.Context()))(t)
		require.Equal(t, before+1, n.metrics.get(&n.metrics.barriers))
	}
	broken := errors.New("the disk is gone")
	n = open(t, embedded.Config{Sync: func() error { return broken }}, Config{})
	key, err := n.SealKey(t.Context())
	require.ErrorIs(t, err, broken)
	require.Nil(t, key)
}

// TestNodesAgreeOnTheKey even where all of them are the first.
func TestNodesAgreeOnTheKey(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	nodes := []*Broker{n.Broker, n.second(t), n.second(t), n.second(t)}
	keys, errs := make([]string, len(nodes)), make([]error, len(nodes))
	var all sync.WaitGroup
	for i, b := range nodes {
		all.Go(func() {
			key, err := b.SealKey(t.Context())
			keys[i], errs[i] = string(key), err
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Len(t, keys[0], SealKeyLen)
	for _, key := range keys {
		require.Equal(t, keys[0], key)
	}
}

// TestDamagedKey is refused: another in its place would go unnoticed.
func TestDamagedKey(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	kv := must(n.js.KeyValue(t.Context(), schemas.KeyBucket))(t)
	for _, damage := range []func() error{
		func() error { _, err := kv.Put(t.Context(), "evidence", []byte("short")); return err },
		func() error { return kv.Delete(t.Context(), "evidence") },
	} {
		require.NoError(t, damage())
		key, err := n.SealKey(t.Context())
		require.ErrorIs(t, err, errKeyDamaged)
		require.Nil(t, key)
	}
	require.NoError(t, n.js.DeleteKeyValue(t.Context(), schemas.KeyBucket))
	_, err := n.SealKey(t.Context())
	require.Error(t, err, "a store that is gone is not an empty one")
}
