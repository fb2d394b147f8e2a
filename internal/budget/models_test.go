package budget

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// TestSeatsOfAllThatMayAnswer: who names a model that a budget does not know before the one
// that answers comes past none: it is held for both, and charged to the one that used it.
func TestSeatsOfAllThatMayAnswer(t *testing.T) {
	t.Parallel()
	b := open(
		schemas.Budget{Name: "dear", Per: []string{schemas.PerTenant}, Models: []string{"dear"}, Requests: 1},
		schemas.Budget{Name: "each", Per: []string{schemas.PerModel}, Tokens: 10_000},
		schemas.Budget{Name: "all", Per: []string{schemas.PerTenant}, Tokens: 10_000},
	)
	o := order("a")
	o.Models = []string{"cheap", "dear"}
	_, err := b.Reserve(t.Context(), o)
	require.NoError(t, err)
	second := order("b")
	second.Models = o.Models
	_, err = b.Reserve(t.Context(), second)
	var refused *Refusal
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "dear", refused.Source)

	used := schemas.ChatUsage{Prompt: 5, Completion: 6, Total: 11}
	o.Shares = map[string]schemas.ChatUsage{"dear": used}
	require.NoError(t, b.Settle(t.Context(), o, &used))
	views, err := b.List(t.Context(), "t")
	require.NoError(t, err)
	got := map[string]float64{}
	for _, v := range views {
		if v.Tokens != nil {
			got[v.Budget+"/"+v.Model] = v.Tokens.Used
		}
		require.Zero(t, v.Open)
	}
	require.Equal(t, map[string]float64{"all/": 11, "each/cheap": 0, "each/dear": 11}, got)
	_, err = b.Reserve(t.Context(), second)
	require.ErrorAs(t, err, &refused, "its one request is used")
}
