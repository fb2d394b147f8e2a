package budget_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/broker"
	"weir/internal/broker/embedded"
	"weir/internal/limits/budget"
	"weir/schemas"
)

var layout = schemas.Layout{Partitions: 1}

// node is a book on a broker of its own.
func node(t *testing.T, server *embedded.Server, budgets ...schemas.Budget) (*budget.Limiter, *broker.Broker) {
	t.Helper()
	b, err := broker.Open(t.Context(), broker.Config{Server: server, Layout: layout, AttemptTimeout: 5 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { b.Close(context.Background()) })
	return budget.NewLimiter(b.Bucket(schemas.BudgetBucket), budget.Config{Budgets: func() []schemas.Budget { return budgets }}), b
}

func serve(t *testing.T, dir string) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(embedded.Config{Dir: dir, Layout: layout})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	return s
}

func completion(action string) budget.Order {
	return budget.Order{
		Tenant: "acme.inc:1", Action: action, Token: "k", Task: "job", Models: []string{"openai/gpt-4.1"}, TaskBudget: &schemas.TaskBudget{USD: 1},
		Prompt: 400, Output: 600, Prices: []*schemas.ModelPrice{{Input: 1_000_000, Output: 4_000_000}}, Until: time.Now().Add(time.Hour),
	}
}

// TestNodesShareTheAccounts: whoever is faster, no more is granted than there is, and all of
// that; and what was used is what stays, over a restart too.
func TestNodesShareTheAccounts(t *testing.T) {
	t.Parallel()
	const (
		many = 100
		fit  = 37
	)
	dir := t.TempDir()
	budgets := []schemas.Budget{{Name: "team", Per: []string{schemas.PerToken, schemas.PerModel}, Tokens: fit*1_000 + 999}}
	server := serve(t, dir)
	here, b := node(t, server, budgets...)
	there, _ := node(t, server, budgets...)
	books := []*budget.Limiter{here, there}
	var all sync.WaitGroup
	var mu sync.Mutex
	granted := map[string]bool{}
	for i := range many {
		all.Go(func() {
			o := completion(strconv.Itoa(i % 80)) // some are redelivered to another
			_, err := books[(i+i/80)%2].Reserve(t.Context(), o)
			var r *budget.Refusal
			switch {
			case err == nil:
				mu.Lock()
				granted[o.Action] = true
				mu.Unlock()
			case !errors.As(err, &r):
				t.Error(err)
			case r.Source != "team":
				t.Error(r)
			}
		})
	}
	all.Wait()
	require.Len(t, granted, fit)
	list, err := there.List(t.Context(), "acme.inc:1")
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, &schemas.BudgetCount{Limit: fit*1_000 + 999, Held: fit * 1_000}, list[1].Tokens)
	require.Equal(t, fit, list[1].Open)
	require.Equal(t, fit, list[0].Open, "what the second refused, the first holds no more")

	for action := range granted {
		for _, book := range books { // each end is heard twice, at once
			all.Go(func() {
				used := schemas.ChatUsage{Prompt: 100, Completion: 10, Total: 110, Nanos: 140_000, Priced: true}
				if err := book.Settle(t.Context(), completion(action), &used); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	b.Close(t.Context())
	require.NoError(t, server.Stop())
	after, _ := node(t, serve(t, dir), budgets...)
	list, err = after.List(t.Context(), "acme.inc:1")
	require.NoError(t, err)
	require.Equal(t, []schemas.BudgetView{
		{Budget: "task", Task: "job", USD: &schemas.BudgetCount{Limit: 1, Used: fit * 0.00014}},
		{Budget: "team", Token: "k", Model: "openai/gpt-4.1", Tokens: &schemas.BudgetCount{Limit: fit*1_000 + 999, Used: fit * 110}},
	}, list)
	require.NoError(t, after.Tidy(t.Context()))
	_, err = after.Reserve(t.Context(), completion("next"))
	require.NoError(t, err)
}
