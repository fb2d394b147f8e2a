package wire_test

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/wire"
)

// TestADroppedAnswer ends with its connection, after all that was left of it.
func TestADroppedAnswer(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = theirs.Close() })
	c, err := wire.Wrap(one{conn: ours}, wire.Config{}).Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	ctx := wire.Context(context.Background(), c)

	wire.Begin(ctx)
	wire.Drop(ctx)
	ran := false
	require.True(t, wire.Later(ctx, func() { ran = true }))
	require.True(t, wire.Finish(ctx))
	require.True(t, ran)

	wire.Begin(ctx)
	require.True(t, wire.Later(ctx, func() { wire.Drop(ctx) }))
	require.True(t, wire.Finish(ctx), "what was left may drop it, too")

	wire.Begin(ctx)
	require.False(t, wire.Finish(ctx), "it was another request's")
	wire.Drop(context.Background())
	require.False(t, wire.Finish(context.Background()), "no connection of ours")
}
