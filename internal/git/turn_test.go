//go:build linux

package git

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/limits"
)

func TestTurns(t *testing.T) {
	t.Parallel()
	g := open(t, Config{Processes: 1})
	_, err := g.Create(t.Context(), "r1", "main")
	require.NoError(t, err)
	g.cfg.Timeout = 100 * time.Millisecond
	held, err := g.sending(t.Context(), "")
	require.NoError(t, err)
	var out bytes.Buffer
	require.ErrorIs(t, g.Advertise(t.Context(), "r1", "git-upload-pack", 2, View{All: true}, &out), ErrBusy)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	require.ErrorIs(t, g.Advertise(ctx, "r1", "git-upload-pack", 2, View{All: true}, &out), errGone)
	<-held.ctx.Done()
	require.ErrorIs(t, context.Cause(held.ctx), ErrTimeout)
	held.end()
	g.cfg.Timeout = time.Minute
	require.NoError(t, g.Advertise(t.Context(), "r1", "git-upload-pack", 2, View{All: true}, &out))
	require.NotEmpty(t, out.Bytes())
}

// TestTurnsOfTenants: a tenant leaves a share of the turns to the next, of imports as of the others, and whoever waits
// for the turn of an import is in no push's way.
func TestTurnsOfTenants(t *testing.T) {
	t.Parallel()
	g := open(t, Config{Processes: 32, TenantShare: 25})
	for all, want := range map[*limits.Shares]int64{g.slots.reads: 16, g.slots.writes: 16, g.slots.imports: 4} {
		require.Equal(t, limits.Percent(want, 25), all.Division)
	}
	var held []slot
	take := func(wait func(context.Context, string) (slot, error), tenant string) {
		turn, err := wait(t.Context(), tenant)
		require.NoError(t, err)
		held = append(held, turn)
	}
	for range 3 {
		take(g.copying, "a")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	waits := make(chan error, 1)
	go func() {
		_, err := g.copying(ctx, "a")
		waits <- err
	}()
	take(g.copying, "b")
	take(g.taking, "a")
	cancel(errGone)
	require.ErrorIs(t, <-waits, errGone)
	require.EqualValues(t, 3, g.slots.imports.Held("a"))
	require.EqualValues(t, 4, g.slots.writes.Held("a"))
	require.EqualValues(t, 1, g.slots.writes.Held("b"))
	for _, turn := range held {
		turn.end()
	}
	for _, all := range []*limits.Shares{g.slots.writes, g.slots.imports} {
		require.Zero(t, all.Held("a")+all.Held("b"))
	}
}
