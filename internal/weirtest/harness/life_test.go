package harness_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

// TestDieAt: the worker dies at the nth append, which is stored or not, and can do nothing more until
// another takes its place. What is done apart is not counted.
func TestDieAt(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{false, true} {
		var life harness.Life
		log := memlog.New(harness.Layout(), time.Now, life.Hooks(nil))
		put := func() error {
			_, err := log.Append(t.Context(), schemas.Append{Subject: schemas.DeadRoot + ".t.http.x"})
			return err
		}
		life.DieAt(2, done)
		require.NoError(t, put())
		life.Apart(func() { require.NoError(t, put()) })
		require.NoError(t, put())
		require.ErrorIs(t, put(), harness.ErrDead)
		require.True(t, life.Dead())
		require.ErrorIs(t, put(), harness.ErrDead)
		require.ErrorIs(t, life.Barrier(t.Context()), harness.ErrDead)
		life.Heal()
		require.NoError(t, put())
		want := 4
		if done {
			want++
		}
		require.Len(t, harness.Dead(t, log), want)
	}
}
