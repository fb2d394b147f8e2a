package app

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGrowth: a small heap has room for what is gone at once, one of streams no more than
// half of what it holds, and that of a long log as much again.
func TestGrowth(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		live uint64
		want int
	}{{0, 3200}, {1 << 20, 3200}, {8 << 20, 400}, {32 << 20, 100}, {64 << 20, 50}, {255 << 20, 50}, {256 << 20, 100}, {1 << 30, 100}, {1 << 50, 100}} {
		require.Equal(t, row.want, growth(row.live), row.live)
	}
}
