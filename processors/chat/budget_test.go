package chat_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// TestABudgetRefuses before anybody is asked, and leaves a record of it.
func TestABudgetRefuses(t *testing.T) {
	t.Parallel()
	type testCase struct {
		budget schemas.Budget
		task   *schemas.TaskBudget
		price  bool
		code   schemas.Code
		status int
		meta   string
	}
	table.BubbleNamed(t, map[string]testCase{
		"spent":           {budget: schemas.Budget{Name: "all", Tokens: 300}, price: true, code: schemas.BudgetExhausted, status: 402, meta: `{"limit_source":"all","limit_what":"tokens"}`},
		"a task's own":    {task: &schemas.TaskBudget{Tokens: 300}, price: true, code: schemas.BudgetExhausted, status: 402, meta: `{"limit_source":"task","limit_what":"tokens"}`},
		"nobody's price":  {budget: schemas.Budget{Name: "all", Nanos: 1 << 40}, code: schemas.BudgetExhausted, status: 402, meta: `{"limit_source":"all","limit_what":"usd"}`},
		"a full window":   {budget: schemas.Budget{Name: "all", Requests: 1, Window: time.Hour}, price: true, code: schemas.RateLimited, status: 429, meta: `{"limit_source":"all","limit_what":"requests"}`},
		"held by others":  {budget: schemas.Budget{Name: "all", Tokens: 1_600}, price: true, code: schemas.RateLimited, status: 429, meta: `{"limit_source":"all","limit_what":"tokens"}`},
		"dearer than all": {budget: schemas.Budget{Name: "all", Nanos: 10}, price: true, code: schemas.BudgetExhausted, status: 402, meta: `{"limit_source":"all","limit_what":"usd"}`},
	}, func(t *testing.T, name string, tt testCase) {
		m := modelOf("small", "a")
		if !tt.price {
			m.Price = nil
		}
		h := newHouse(t, m)
		if tt.budget.Name != "" {
			h.budgets = []schemas.Budget{tt.budget}
		}
		if tt.budget.Requests > 0 {
			h.another("c-0")
		}
		if name == "held by others" {
			h.holds(1_500, tt.budget)
		}
		o := order("small")
		o.TaskID, o.Budget = "t-1", tt.task
		before := len(h.asked())
		e := h.run(o)
		assert.Equal(t, []any{schemas.OutcomeDenied, tt.code, tt.status}, []any{e.Outcome, e.Code, e.result.Error.Status})
		assert.JSONEq(t, tt.meta, string(e.result.Error.Metadata))
		assert.Len(t, h.asked(), before)
		assert.Nil(t, e.result.Usage)
		assert.NotContains(t, types(e.types), "attempt")
		require.Len(t, e.left, 1)
		assert.Equal(t, []any{"c-1.budget", tt.code}, []any{e.left[0].ID, e.left[0].Code})
		assert.Equal(t, []any{"small", "small", "t-1", 0}, []any{e.audits[0].Asked, e.audits[0].Model, e.audits[0].TaskID, e.audits[0].Attempt})
		assert.NotEmpty(t, e.audits[0].LimitSource)
		assert.Equal(t, []string{e.audits[0].LimitSource}, h.metrics.refused)
		if tt.status == 429 {
			assert.Positive(t, e.result.Error.RetryAfterMS)
		}
		if tt.price {
			require.NotEmpty(t, e.result.Error.Limits)
		}
	})
}

// another performs a completion under another id.
func (h *house) another(id string) {
	h.t.Helper()
	h.accept(order("small"), func(a *schemas.Action) { a.ID = id })
	h.advance(time.Second)
}

// TestTheWorstCase is that of the dearest candidate, and of every answer that is asked for.
func TestTheWorstCase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dear, free := modelOf("dear", "d"), modelOf("free", "f")
		dear.Price = &schemas.ModelPrice{Input: 0, Output: 50_000_000}
		dear.MaxOutput = 2000
		h := newHouse(t, modelOf("small", "a"), dear, free)
		h.budgets = []schemas.Budget{{Name: "all", Tokens: 1_000_000, Nanos: 1 << 50}}
		o := whole()
		o.Models, o.Choices = []string{"dear"}, 3
		var tokens, usd float64
		h.acts["a"] = []act{{texts: []string{"x"}, first: func() {
			v := h.account("all")
			tokens, usd = v.Tokens.Held, v.USD.Held
		}}}
		h.run(o)
		assert.InDelta(t, 400+3*2000, tokens, 0)
		assert.InDelta(t, 3*2000*50_000/1e9, usd, 1e-12)
	})
}

// TestTheBucketIsAway for a while: it is waited for before anybody is asked, and once more
// before the end.
func TestTheBucketIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, modelOf("small", "a"))
		h.budgets = []schemas.Budget{{Name: "all", Tokens: 1_000_000}}
		h.shelf.fails = errors.New("away")
		h.accept(order("small"))
		h.advance(10 * time.Second)
		assert.Empty(t, h.asked(), "what cannot be held is not asked for")
		h.shelf.mu.Lock()
		h.shelf.fails = nil
		h.shelf.mu.Unlock()
		h.acts["a"] = []act{{texts: []string{"Hello"}, then: func() {
			h.shelf.mu.Lock()
			defer h.shelf.mu.Unlock()
			h.shelf.fails = errors.New("away")
			time.AfterFunc(time.Minute, func() {
				h.shelf.mu.Lock()
				defer h.shelf.mu.Unlock()
				h.shelf.fails = nil
			})
		}}}
		h.advance(deadline)
		e := h.end("")
		assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		assert.Len(t, h.asked(), 1, "settling is tried again, and nothing else")
		h.accounts(e, "")
	})
}

// TestOneRequest is one, however many upstreams were asked, and what was not sent costs
// nothing.
func TestOneRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, modelOf("small", "a", "b"))
		h.budgets = []schemas.Budget{{Name: "all", Requests: 10}}
		h.acts["a"] = []act{{status: 503}}
		h.run(order("small"))
		assert.InDelta(t, 1, h.account("all").Requests.Used, 0)
	})
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, modelOf("small", "a"))
		h.budgets = []schemas.Budget{{Name: "all", Requests: 10}}
		h.acts["a"] = []act{{open: &fault.Call{Code: schemas.UpstreamDNS}}}
		h.run(order("small"))
		v := h.account("all")
		if v.Requests != nil {
			assert.Zero(t, v.Requests.Used)
		}
		assert.Zero(t, v.Open)
	})
}
