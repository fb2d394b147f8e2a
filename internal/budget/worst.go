package budget

import (
	"cmp"
	"slices"

	"weir/internal/models"
	"weir/schemas"
)

// unsaid is how many tokens an answer is taken to have at most that nobody bounds.
const unsaid = 16_384

// WorstCase is what a completion asks of its budgets that any of some candidates may
// answer: its prompt where its images count most, the largest answer of any of them, and
// the prices of all. Whose it is, but for
// its task, and until when, is left to be filled in.
func WorstCase(o *schemas.ChatOrder, list []models.Candidate) Order {
	w := Order{
		Task: o.TaskID, TaskBudget: o.Budget,
		Prompt: models.Plus(o.Prompt, o.Media), Output: o.Output, Elastic: o.Output == 0 && o.Stream,
	}
	image := int64(0)
	for _, c := range list {
		most, _ := models.Image(c.Model)
		image = max(image, most)
		if o.Output == 0 {
			w.Output = max(w.Output, models.Times(cmp.Or(c.Model.MaxOutput, unsaid), max(o.Choices, 1)))
		}
		if !slices.Contains(w.Prices, c.Model.Price) {
			w.Prices = append(w.Prices, c.Model.Price)
		}
	}
	w.Prompt = models.Plus(w.Prompt, models.Times(o.Images, image))
	return w
}
