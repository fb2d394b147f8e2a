package budget

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/models"
	"weir/schemas"
)

// TestWorstCase: the largest answer of any that may answer, and the prices of all.
func TestWorstCase(t *testing.T) {
	t.Parallel()
	cheap, dear := &schemas.ModelPrice{Input: 1}, &schemas.ModelPrice{Output: 2}
	small := models.Candidate{Model: &schemas.Model{Price: cheap, MaxOutput: 100}}
	large := models.Candidate{Model: &schemas.Model{Price: dear, MaxOutput: 200}}
	unknown := models.Candidate{Model: &schemas.Model{}}
	both := []*schemas.ModelPrice{cheap, dear}
	own := &schemas.TaskBudget{Tokens: 7}
	for name, tc := range map[string]struct {
		order schemas.ChatOrder
		list  []models.Candidate
		want  Order
	}{
		"what is said": {
			schemas.ChatOrder{Prompt: 5, Output: 7, Choices: 3, Stream: true},
			[]models.Candidate{small, large},
			Order{Prompt: 5, Output: 7, Prices: both},
		},
		"the largest": {
			schemas.ChatOrder{Prompt: 5, Choices: 3, TaskID: "t", Budget: own},
			[]models.Candidate{small, large, small},
			Order{Prompt: 5, Output: 600, Prices: both, Task: "t", TaskBudget: own},
		},
		"nobody knows": {
			schemas.ChatOrder{Stream: true, Choices: 1},
			[]models.Candidate{unknown, large},
			Order{Output: unsaid, Elastic: true, Prices: []*schemas.ModelPrice{nil, dear}},
		},
		"too many": {
			schemas.ChatOrder{Choices: math.MaxInt64},
			[]models.Candidate{large},
			Order{Output: math.MaxInt64, Prices: both[1:]},
		},
		"images, where they count most": {
			schemas.ChatOrder{Prompt: 5, Images: 2, Media: 7, Output: 1},
			[]models.Candidate{large, {Model: &schemas.Model{Price: cheap, ImageTokens: 60_000}}},
			Order{Prompt: 120_012, Output: 1, Prices: []*schemas.ModelPrice{dear, cheap}},
		},
		"images of which nobody knows": {
			schemas.ChatOrder{Prompt: 5, Images: 2, Output: 1},
			[]models.Candidate{large},
			Order{Prompt: 5 + 2*49_152, Output: 1, Prices: both[1:]},
		},
		"images beyond all counts": {
			schemas.ChatOrder{Prompt: 5, Images: math.MaxInt64, Output: 1},
			[]models.Candidate{large},
			Order{Prompt: math.MaxInt64, Output: 1, Prices: both[1:]},
		},
		"nobody": {schemas.ChatOrder{Prompt: 5}, nil, Order{Prompt: 5}},
	} {
		require.Equal(t, tc.want, WorstCase(&tc.order, tc.list), name)
	}
}
