package chat_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/harness"
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
		h := newEnv(t, m)
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
func (h *env) another(id string) {
	h.T.Helper()
	h.accept(order("small"), func(a *schemas.Action) { a.ID = id })
	h.Advance(time.Second)
}

// TestTheBucketIsAway for a while: it is waited for before anybody is asked, and once more
// before the end.
func TestTheBucketIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newEnv(t, modelOf("small", "a"))
		h.budgets = []schemas.Budget{{Name: "all", Tokens: 1_000_000}}
		h.shelf.Away(true)
		h.accept(order("small"))
		h.Advance(10 * time.Second)
		assert.Empty(t, h.asked(), "what cannot be held is not asked for")
		h.shelf.Away(false)
		h.acts["a"] = []act{{texts: []string{"Hello"}, then: func() {
			h.shelf.Away(true)
			time.AfterFunc(time.Minute, func() { h.shelf.Away(false) })
		}}}
		h.Advance(deadline)
		e := h.end("")
		assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		assert.Len(t, h.asked(), 1, "settling is tried again, and nothing else")
		h.accounts(e, "")
	})
}

// TestEachModelBearsItsOwn: where several models were asked, the account of each is charged
// what its own calls have used.
func TestEachModelBearsItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newEnv(t, modelOf("one", "a"), modelOf("two", "b"))
		h.budgets = []schemas.Budget{{Name: "each", Per: []string{schemas.PerModel}, Tokens: 100_000}}
		h.acts["a"] = []act{broke(schemas.UpstreamTimeout, 0)}
		h.acts["b"] = []act{{texts: []string{"Hello"}, usage: &schemas.ChatUsage{Prompt: 7, Completion: 2, Total: 9}}}
		o := order("one")
		o.Models = []string{"two"}
		e := h.run(o)
		require.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		list, err := h.books(h.budgets...).List(t.Context(), ref.Tenant)
		require.NoError(t, err)
		used := map[string]float64{}
		for _, v := range list {
			used[v.Model] = v.Tokens.Used
		}
		assert.Equal(t, map[string]float64{"one": 100, "two": 9}, used)
		assert.EqualValues(t, 109, e.result.Usage.Total)
	})
}

// TestWhoCutItOff is told by whoever ends the completion, though the worker that cut it off
// has told nobody; where its window is over, and the budget has become less, too.
func TestWhoCutItOff(t *testing.T) {
	t.Parallel()
	table.Bubble(t, map[string]func(h *env){
		"at once": func(*env) {},
		"in another window": func(h *env) {
			time.Sleep(time.Minute)
			h.budgets[0].Tokens = 10
		},
	}, func(t *testing.T, between func(h *env)) {
		h := newEnv(t, modelOf("small", "a"))
		h.budgets = []schemas.Budget{{Name: "minute", Tokens: 410, Window: time.Minute}}
		h.acts["a"] = []act{{texts: manyTexts(30)}}
		rec := h.message(order("small"))
		h.Queue = nil
		h.hook = func(m schemas.Append) error {
			if strings.HasPrefix(m.Subject, schemas.EvidenceRoot+".") {
				return harness.ErrDead
			}
			return nil
		}
		require.Error(t, h.Handle(rec, true))
		h.hook = nil
		between(h)
		h.Replace()
		require.NoError(t, h.Handle(rec, false))
		e := h.end("")
		require.Equal(t, []any{schemas.OutcomeFailed, schemas.BudgetExhausted}, []any{e.Outcome, e.Code})
		assert.JSONEq(t, `{"limit_source":"minute","limit_what":"tokens"}`, string(e.result.Error.Metadata))
		require.Len(t, e.audits, 1)
		assert.Equal(t, "minute", e.audits[0].LimitSource)
		assert.Equal(t, []string{"a"}, h.asked())
	})
}

// TestAHoldOutlastsItsDeadline by as much as its end may take: nobody else is to have it
// before the worker has settled.
func TestAHoldOutlastsItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newEnv(t, modelOf("small", "a"))
		h.budgets = []schemas.Budget{{Name: "all", Tokens: 100_000}}
		h.acts["a"] = []act{{hang: true}}
		h.accept(order("small"))
		h.dieIn(h.Queue[0].Record, time.Minute)
		time.Sleep(deadline - 2*time.Second)
		require.Equal(t, 1, h.account("all").Open, "a minute behind its deadline, all but two seconds")
		time.Sleep(4 * time.Second)
		require.Zero(t, h.account("all").Open)
	})
}
