package ingress_test

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress"
	"weir/internal/budget"
	"weir/internal/fault"
	"weir/schemas"
)

// accounts are a bucket in memory.
type accounts struct {
	mu   sync.Mutex
	last uint64
	kept map[string]schemas.Record
}

func (b *accounts) Get(_ context.Context, key string) (schemas.Record, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r, ok := b.kept[key]; ok {
		return r, nil
	}
	return schemas.Record{}, fault.ErrNotFound
}

func (b *accounts) Put(_ context.Context, key string, value []byte, last uint64) (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept[key].Seq != last {
		return 0, fault.ErrFenced
	}
	b.last++
	b.kept[key] = schemas.Record{Subject: key, Seq: b.last, Data: value}
	return b.last, nil
}

func (b *accounts) Forget(context.Context, string, uint64) error { return nil }

func (b *accounts) Read(context.Context, uint64, int) ([]schemas.Record, error) { return nil, nil }

func (b *accounts) Barrier(context.Context) error { return nil }

// watched notes what is looked for.
type watched struct {
	ingress.Looker
	orders []budget.Order
}

func (w *watched) Look(ctx context.Context, o budget.Order) ([]schemas.ChatLimit, error) {
	w.orders = append(w.orders, o)
	return w.Looker.Look(ctx, o)
}

// TestWhatOthersHold of a budget without a window: the request is to be sent again, and
// nothing is stored; what remains of a budget counts the request that is told of it.
func TestWhatOthersHold(t *testing.T) {
	t.Parallel()
	book := budget.NewBook(&accounts{kept: map[string]schemas.Record{}}, budget.Config{
		Budgets: func() []schemas.Budget { return []schemas.Budget{{Name: "ever", Requests: 2, Tokens: 1_000_000}} },
	})
	seen := &watched{Looker: book}
	w := setup(t, desk(func(c *ingress.ChatConfig) { c.Budgets = seen }))
	other := budget.Order{Tenant: "default", Action: "other", Models: []string{"vendor/big"}, Output: 1, Until: time.Now().Add(time.Hour)}
	_, err := book.Reserve(t.Context(), other)
	require.NoError(t, err)
	a := w.do(t, post("/chat/completions", okChat))
	require.Equal(t, http.StatusAccepted, a.Code)
	require.Equal(t, "2", a.Header().Get("x-ratelimit-limit-requests"))
	require.Equal(t, "0", a.Header().Get("x-ratelimit-remaining-requests"))
	require.NotEmpty(t, seen.orders)
	worst := seen.orders[0].Prompt + seen.orders[0].Output
	require.Greater(t, worst, int64(100))
	require.Equal(t, strconv.FormatInt(1_000_000-1-worst, 10), a.Header().Get("x-ratelimit-remaining-tokens"))

	another := other
	another.Action = "another"
	_, err = book.Reserve(t.Context(), another)
	require.NoError(t, err)
	stored := w.records(t)
	a = w.do(t, post("/chat/completions", okChat))
	require.Equal(t, http.StatusTooManyRequests, a.Code)
	require.Equal(t, "RATE_LIMITED", chatFault(t, a))
	require.Equal(t, "1", a.Header().Get("Retry-After"))
	require.Equal(t, "0", a.Header().Get("x-ratelimit-remaining-requests"))
	require.Equal(t, "ever", a.field("error", "metadata", "limit_source"))
	require.Contains(t, a.field("error", "message"), "held for completions that are under way")
	require.Equal(t, stored, w.records(t))

	require.NoError(t, book.Settle(t.Context(), other, nil))
	require.Equal(t, http.StatusAccepted, w.do(t, post("/chat/completions", okChat)).Code)
	for _, o := range []budget.Order{other, another} {
		_, err = book.Reserve(t.Context(), o)
		require.NoError(t, err)
		require.NoError(t, book.Settle(t.Context(), o, &schemas.ChatUsage{Total: 1}))
	}
	require.Equal(t, http.StatusAccepted, w.do(t, post("/chat/completions", okChat)).Code, "what is spent is for a worker to say")
	require.NotContains(t, schemas.DoorCodes(), schemas.BudgetExhausted)
}
