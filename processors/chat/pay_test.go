package chat_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/table"
	"weir/schemas"
)

// TestEachModelBearsItsOwn: where several models were asked, the account of each is charged
// what its own calls have used.
func TestEachModelBearsItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, modelOf("one", "a"), modelOf("two", "b"))
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
	table.Bubble(t, map[string]func(h *house){
		"at once": func(*house) {},
		"in another window": func(h *house) {
			time.Sleep(time.Minute)
			h.budgets[0].Tokens = 10
		},
	}, func(t *testing.T, between func(h *house)) {
		h := newHouse(t, modelOf("small", "a"))
		h.budgets = []schemas.Budget{{Name: "minute", Tokens: 410, Window: time.Minute}}
		h.acts["a"] = []act{{texts: manyTexts(30, "tok ")}}
		h.accept(order("small"))
		rec := h.queue[0].rec
		h.queue = nil
		h.hook = func(m schemas.Append) error {
			if strings.HasPrefix(m.Subject, schemas.EvidenceRoot+".") {
				return errDead
			}
			return nil
		}
		h.toWork(true)
		require.Error(t, h.worker.Handle(h.ctx, rec, true))
		h.toWork(false)
		h.hook = nil
		between(h)
		h.hire()
		require.NoError(t, h.worker.Handle(h.ctx, rec, false))
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
		h := newHouse(t, modelOf("small", "a"))
		h.budgets = []schemas.Budget{{Name: "all", Tokens: 100_000}}
		h.acts["a"] = []act{{hang: true}}
		h.accept(order("small"))
		h.dieIn(h.queue[0].rec, time.Minute)
		time.Sleep(deadline - 2*time.Second)
		require.Equal(t, 1, h.account("all").Open, "a minute behind its deadline, all but two seconds")
		time.Sleep(4 * time.Second)
		require.Zero(t, h.account("all").Open)
	})
}

// TestARefusalWritesNoAccount: a budget that is spent costs one look for each refusal.
func TestARefusalWritesNoAccount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, modelOf("small", "a"))
		h.budgets = []schemas.Budget{{Name: "all", Tokens: 300}, {Name: "more", Tokens: 100_000}}
		reads := 0
		h.shelf.reads = func() { reads++ }
		e := h.run(order("small"))
		require.Equal(t, schemas.BudgetExhausted, e.Code)
		require.Equal(t, 1, reads)
		require.Empty(t, h.shelf.kept)
	})
}
