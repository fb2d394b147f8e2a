package models_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/models"
	"weir/schemas"
)

func TestCost(t *testing.T) {
	t.Parallel()
	const million, dollar = 1_000_000, 1_000_000_000
	// 2.50, 10 and 1.25 dollars for a million tokens.
	p := &schemas.ModelPrice{Input: 2_500_000, Output: 10_000_000, Cached: 1_250_000, Request: dollar / 100}
	for _, tt := range []struct {
		name     string
		p        *schemas.ModelPrice
		u        schemas.ChatUsage
		requests int64
		want     int64
	}{
		{"no price", nil, schemas.ChatUsage{Prompt: million}, 1, 0},
		{"nothing", p, schemas.ChatUsage{}, 0, 0},
		{"a request", p, schemas.ChatUsage{}, 1, dollar / 100},
		{"a million of each", p, schemas.ChatUsage{Prompt: million, Completion: million}, 0, 12*dollar + dollar/2},
		{"half cached", p, schemas.ChatUsage{Prompt: million, Cached: million / 2}, 0, 1_875_000_000},
		{"more cached than there is", p, schemas.ChatUsage{Prompt: 1000, Cached: math.MaxInt64}, 0, 1_250_000},
		{"cached without a price", &schemas.ModelPrice{Input: 1000}, schemas.ChatUsage{Prompt: 1000, Cached: 500}, 0, 1000},
		{"rounded up", &schemas.ModelPrice{Input: 1}, schemas.ChatUsage{Prompt: 1}, 0, 1},
		{"rounded once", &schemas.ModelPrice{Input: 1, Output: 1}, schemas.ChatUsage{Prompt: 1, Completion: 1}, 0, 1},
		{"below zero", p, schemas.ChatUsage{Prompt: -5, Completion: math.MinInt64, Cached: -1}, -1, 0},
		{"too much", p, schemas.ChatUsage{Prompt: math.MaxInt64, Completion: math.MaxInt64}, math.MaxInt64, math.MaxInt64},
		{
			"the most", &schemas.ModelPrice{Input: math.MaxInt64, Output: math.MaxInt64, Cached: math.MaxInt64, Request: math.MaxInt64},
			schemas.ChatUsage{Prompt: math.MaxInt64, Completion: math.MaxInt64, Cached: math.MaxInt64 / 2},
			math.MaxInt64, math.MaxInt64,
		},
		{"the sum is too much", &schemas.ModelPrice{Input: 1000, Request: 1}, schemas.ChatUsage{Prompt: math.MaxInt64}, 1, math.MaxInt64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, models.Cost(tt.p, tt.u, tt.requests))
		})
	}
}

// TestSum: too much is the most there is, and never less.
func TestSum(t *testing.T) {
	t.Parallel()
	a := schemas.ChatUsage{Prompt: 1, Completion: 2, Total: 3, Cached: 4, Reasoning: 5, Nanos: 6, Priced: true}
	require.Equal(t, schemas.ChatUsage{Prompt: 2, Completion: 4, Total: 6, Cached: 8, Reasoning: 10, Nanos: 12, Priced: true}, models.Sum(a, a))
	b := schemas.ChatUsage{
		Prompt: math.MaxInt64, Completion: math.MaxInt64, Total: math.MaxInt64, Cached: math.MaxInt64,
		Reasoning: math.MaxInt64, Nanos: math.MaxInt64, Estimated: true,
	}
	require.Equal(t, b, models.Sum(a, b))
	require.EqualValues(t, 3, models.Plus(5, -2))
	require.EqualValues(t, math.MaxInt64, models.Plus(math.MaxInt64, 1))
}
