package limits_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/limits"
)

func TestPerKey(t *testing.T) {
	t.Parallel()
	l := limits.NewPerKey[string](2)
	first, ok := l.TryAcquire("a")
	require.True(t, ok)
	_, ok = l.TryAcquire("a")
	require.True(t, ok)
	_, ok = l.TryAcquire("a")
	require.False(t, ok)
	_, ok = l.TryAcquire("b")
	require.True(t, ok, "each key has its own")
	first()
	_, ok = l.TryAcquire("a")
	require.True(t, ok)
}

func TestKeyedMutex(t *testing.T) {
	t.Parallel()
	m := limits.NewKeyedMutex()
	unlock, err := m.Lock(t.Context(), "a")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = m.Lock(ctx, "a")
	require.ErrorIs(t, err, context.Canceled)
	unlock()
	_, err = m.Lock(t.Context(), "a")
	require.NoError(t, err)
}
