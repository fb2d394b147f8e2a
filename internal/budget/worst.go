package budget

import (
	"cmp"
	"math"
	"slices"

	"weir/internal/models"
	"weir/schemas"
)

// unsaid is how many tokens an answer is taken to have at most that nobody bounds.
const unsaid = 16_384

// WorstCase is what a completion asks of its budgets that any of some candidates may
// answer: the largest answer of any of them, and the prices of all. Whose it is, but for
// its task, and until when, is left to be filled in.
func WorstCase(o *schemas.ChatOrder, list []models.Candidate) Order {
	w := Order{
		Task: o.TaskID, TaskBudget: o.Budget,
		Prompt: o.Prompt, Output: o.Output, Elastic: o.Output == 0 && o.Stream,
	}
	for _, c := range list {
		if o.Output == 0 {
			w.Output = max(w.Output, times(cmp.Or(c.Model.MaxOutput, unsaid), max(o.Choices, 1)))
		}
		if !slices.Contains(w.Prices, c.Model.Price) {
			w.Prices = append(w.Prices, c.Model.Price)
		}
	}
	return w
}

// times multiplies what is above zero; too much is the most there is.
func times(a, b int64) int64 {
	if a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}
