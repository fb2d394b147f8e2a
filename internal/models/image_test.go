package models_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/models"
	"weir/schemas"
)

// TestImage: what the configuration says is held and charged; else more is held than any
// model is known to count, and not nearly so much is charged.
func TestImage(t *testing.T) {
	t.Parallel()
	most, usual := models.Image(&schemas.Model{ImageTokens: 1105})
	require.Equal(t, []int64{1105, 1105}, []int64{most, usual})
	for _, m := range []*schemas.Model{nil, {}} {
		most, usual = models.Image(m)
		require.Equal(t, []int64{49_152, 2048}, []int64{most, usual})
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]int64{
		{0, 5, 0}, {-1, 5, 0}, {3, 5, 15}, {math.MaxInt64, 1, math.MaxInt64}, {math.MaxInt64, 2, math.MaxInt64}, {1 << 32, 1 << 32, math.MaxInt64},
	} {
		require.Equal(t, c[2], models.Times(c[0], c[1]), c)
	}
}
