package chat_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/limits/budget"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// large is a request that lies apart from its action.
func large() schemas.ChatOrder {
	o := order("small")
	o.Body = json.RawMessage(`{"model":"small","messages":[{"role":"user","content":"` + strings.Repeat("x", schemas.InlineLimit) + `"}],"stream":true}`)
	return o
}

// settled writes an end of the completion, as a worker does that dies right behind it.
func (h *env) settled(s schemas.Settled) {
	h.T.Helper()
	st := harness.Load(h.T, h.Ingress, ref)
	harness.Append(h.T, h.Ingress, st, schemas.Event{Type: schemas.EventSettled, Settled: &s})
}

// TestWhatWasPutAside is charged by what its attempts have used, the open one too,
// whoever put it aside and however large it is; and nothing stays held.
func TestWhatWasPutAside(t *testing.T) {
	t.Parallel()
	poison := schemas.Settled{Outcome: schemas.OutcomeFailed, Code: schemas.Poison}
	byWorker := func(h *env, rec schemas.Record) error {
		return h.node("n2").DeadLetter(h.T.Context(), rec, &fault.Terminal{Code: schemas.Poison})
	}
	byTheDead := func(h *env, rec schemas.Record) error {
		h.settled(poison)
		return h.node("n2").Handle(h.T.Context(), rec, false)
	}
	type testCase struct {
		order schemas.ChatOrder
		texts []string
		aside func(h *env, rec schemas.Record) error
	}
	table.Bubble(t, map[string]testCase{
		"by this worker":               {order("small"), nil, byWorker},
		"by this worker, something":    {large(), []string{"Hello there"}, byWorker},
		"by one that died":             {large(), nil, byTheDead},
		"by one that died, something ": {order("small"), []string{"Hello there"}, byTheDead},
	}, func(t *testing.T, tt testCase) {
		h := newEnv(t, modelOf("small", "a"))
		h.budgets = []schemas.Budget{{Name: "all", Tokens: 1_000_000}}
		h.acts["a"] = []act{{texts: tt.texts, hang: true}}
		rec := h.message(tt.order)
		h.dieIn(rec, time.Minute)
		require.Equal(t, 1, h.account("all").Open)
		require.NoError(t, tt.aside(h, rec))
		v := h.account("all")
		assert.Zero(t, v.Open)
		assert.GreaterOrEqual(t, v.Tokens.Used, 100.0)
		assert.Equal(t, tt.texts != nil, v.Tokens.Used > 100)
		require.NoError(t, h.node("n3").Handle(t.Context(), rec, false))
		assert.InDelta(t, v.Tokens.Used, h.account("all").Tokens.Used, 0, "a repeat changes nothing")
	})
}

// dieIn has a worker take a message up and die after a while.
func (h *env) dieIn(rec schemas.Record, d time.Duration) {
	h.T.Helper()
	end := h.Begin(h.node("n1"), rec)
	time.Sleep(d)
	end()
}

// TestAnAnswerThatCannotBeRead has its completion put aside, and is charged by an estimate.
func TestAnAnswerThatCannotBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newEnv(t, modelOf("small", "a"))
		h.budgets = []schemas.Budget{{Name: "all", Tokens: 1_000_000}}
		h.acts["a"] = []act{{hang: true}}
		rec := h.message(order("small"))
		h.dieIn(rec, time.Minute)
		st := harness.Load(h.T, h.Ingress, ref)
		require.NoError(t, h.Ingress.Append(t.Context(), st, schemas.Event{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{
			Number: 1, Sent: true, Status: 200, Answer: &schemas.Answer{Status: 200, Body: json.RawMessage(`"?"`)},
		}}))
		require.NoError(t, h.node("n2").Handle(t.Context(), rec, false))
		st = harness.Load(h.T, h.Ingress, ref)
		require.Equal(t, schemas.Poison, st.Settled.Code)
		v := h.account("all")
		assert.Zero(t, v.Open)
		assert.InDelta(t, 100, v.Tokens.Used, 0)
	})
}

// TestAHoldBehindTheEnd, of a worker that did not know of it, is freed when it hears of it.
// What the end was charged stands.
func TestAHoldBehindTheEnd(t *testing.T) {
	t.Parallel()
	table.Bubble(t, map[string]func() schemas.ChatOrder{
		"small": func() schemas.ChatOrder { return order("small") }, "large": large,
	}, func(t *testing.T, order func() schemas.ChatOrder) {
		h := newEnv(t, modelOf("small", "a"))
		h.budgets = []schemas.Budget{{Name: "all", Tokens: 1_000_000}}
		rec := h.message(order())
		h.settled(schemas.Settled{Outcome: schemas.OutcomeSucceeded, Result: json.RawMessage(`{"completion":{}}`)})
		_, err := h.books(h.budgets...).Reserve(t.Context(), budget.Order{
			Tenant: ref.Tenant, Action: ref.ID, Token: "tok-1", Models: []string{"small"}, Prompt: 400, Output: 1000, Until: time.Now().Add(time.Hour),
		})
		require.NoError(t, err)
		require.Equal(t, 1, h.account("all").Open)
		require.NoError(t, h.node("n2").Handle(t.Context(), rec, false))
		assert.Zero(t, h.account("all").Open)
		assert.Zero(t, h.account("all").Tokens.Used)
	})
}

// books is a book over the house's accounts, with some budgets.
func (h *env) books(list ...schemas.Budget) *budget.Limiter {
	return budget.NewLimiter(h.shelf, budget.Config{Budgets: func() []schemas.Budget { return list }})
}

// holds has somebody else hold so much of some budgets.
func (h *env) holds(prompt int64, list ...schemas.Budget) {
	h.T.Helper()
	_, err := h.books(list...).Reserve(h.T.Context(), budget.Order{
		Tenant: ref.Tenant, Action: "other", Token: "tok-2", Models: []string{"small"}, Prompt: prompt, Output: 1, Until: time.Now().Add(time.Hour),
	})
	require.NoError(h.T, err)
}

// dies has a worker begin a completion, and go down while it is under way.
func (h *env) dies(after time.Duration) schemas.Record {
	h.T.Helper()
	rec := h.Queue[0].Record
	h.Queue = nil
	done := make(chan error, 1)
	go func() { done <- h.Handle(rec, true) }()
	time.Sleep(after)
	h.Stop()
	require.Error(h.T, <-done)
	h.Replace()
	return rec
}

// TestWhatADeadWorkerUsed is charged, though the next one is refused: the window in which
// it was begun is over, and another's completions have filled the next.
func TestWhatADeadWorkerUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newEnv(t, modelOf("small", "a"))
		h.budgets = []schemas.Budget{{Name: "total", Tokens: 100_000}, {Name: "minute", Window: time.Minute, Tokens: 1_600}}
		h.acts["a"] = []act{{hang: true}}
		h.accept(order("small"))
		rec := h.dies(30 * time.Second)
		time.Sleep(90 * time.Second)
		h.holds(1_500, h.budgets[1])
		require.NoError(t, h.Handle(rec, false))
		e := h.end("")
		assert.Equal(t, []any{schemas.OutcomeFailed, schemas.RateLimited}, []any{e.Outcome, e.Code})
		assert.Positive(t, e.result.Usage.Total)
		v := h.account("total")
		assert.InDelta(t, e.result.Usage.Total, v.Tokens.Used, 0)
		assert.Zero(t, v.Tokens.Held)
	})
}

// TestWhatADeadWorkerHeard of what was used is charged where it is on the log, for a reader
// that wants to know, with what came behind it; otherwise it is an estimate.
func TestWhatADeadWorkerHeard(t *testing.T) {
	t.Parallel()
	for asked, total := range map[bool]int64{true: 1303, false: 103} {
		synctest.Test(t, func(t *testing.T) {
			h := newEnv(t, modelOf("small", "a"))
			h.acts["a"] = []act{{raw: []string{`{"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":300}}`, chunk("Hello, world")}, hang: true}}
			o := order("small")
			o.Usage = asked
			h.accept(o)
			rec := h.dies(30 * time.Second)
			require.NoError(t, h.Handle(rec, false))
			e := h.end("")
			assert.Equal(t, schemas.Interrupted, e.Code)
			assert.Equal(t, []any{total, true}, []any{e.result.Usage.Total, e.result.Usage.Estimated})
		})
	}
}

// TestWhatADeadWorkerHeld is free where nothing was sent, and the next one is refused.
func TestWhatADeadWorkerHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newEnv(t, modelOf("small", "a"))
		h.budgets = []schemas.Budget{{Name: "minute", Window: time.Minute, Requests: 1}, {Name: "total", Tokens: 100_000}}
		rec := h.message(order("small"))
		h.Queue = nil
		h.hook = func(schemas.Append) error { return fault.ErrFull }
		require.Error(t, h.Handle(rec, true))
		require.Equal(t, 1, h.account("total").Open)
		h.hook = nil
		time.Sleep(2 * time.Minute)
		h.holds(1, h.budgets[0])
		require.NoError(t, h.Handle(rec, false))
		e := h.end("")
		assert.Equal(t, []any{schemas.OutcomeDenied, schemas.RateLimited}, []any{e.Outcome, e.Code})
		assert.Empty(t, h.asked())
		assert.Zero(t, h.account("total").Open)
	})
}

// TestAnAccountThatCannotBeRead keeps no completion from its end.
func TestAnAccountThatCannotBeRead(t *testing.T) {
	t.Parallel()
	spoil := func(h *env, name string) {
		all := h.shelf.All()
		i := slices.IndexFunc(all, func(r schemas.Record) bool { return strings.Contains(r.Subject, name) })
		require.GreaterOrEqual(t, i, 0)
		h.shelf.Overwrite(all[i].Subject, `{"v":2}`) // a newer version has written it
	}
	budgets := []schemas.Budget{{Name: "first", Tokens: 100_000}, {Name: "total", Tokens: 100_000}, {Name: "zlast", Tokens: 100_000}}
	synctest.Test(t, func(t *testing.T) {
		h := newEnv(t, modelOf("small", "a"))
		h.budgets = budgets
		h.holds(1, budgets[1])
		spoil(h, "total")
		e := h.run(order("small"))
		assert.Equal(t, []any{schemas.OutcomeDenied, schemas.BudgetExhausted, 402}, []any{e.Outcome, e.Code, e.result.Error.Status})
		assert.Contains(t, e.result.Error.Message, "cannot be read")
		assert.JSONEq(t, `{"limit_source":"total"}`, string(e.result.Error.Metadata))
		assert.Equal(t, "total", e.audits[0].LimitSource)
		assert.Empty(t, h.asked())
		assert.Zero(t, h.account("first").Open)
	})
	synctest.Test(t, func(t *testing.T) {
		h := newEnv(t, modelOf("small", "a"))
		h.budgets = budgets
		h.acts["a"] = []act{{texts: []string{"Hello"}, then: func() { spoil(h, "total") }}}
		e := h.run(order("small"))
		assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		for _, name := range []string{"first", "zlast"} {
			v := h.account(name)
			assert.Zero(t, v.Open)
			assert.InDelta(t, e.result.Usage.Total, v.Tokens.Used, 0)
		}
	})
}

// TestTheAccountOfAnAlias is that of the model it named when the completion was accepted,
// whatever it names when another worker ends it.
func TestTheAccountOfAnAlias(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, two := modelOf("one", "a"), modelOf("two", "b")
		h := newEnv(t, one, two, schemas.Model{Name: "fast", Alias: "one"})
		h.budgets = []schemas.Budget{{Name: "each", Per: []string{schemas.PerModel}, Tokens: 100_000}}
		h.acts["a"] = []act{{texts: []string{"Hel"}, hang: true}}
		h.accept(order("fast"), func(a *schemas.Action) { a.Answers = []string{"one"} })
		rec := h.dies(time.Minute)
		h.configure(one, two, schemas.Model{Name: "fast", Alias: "two"})
		require.NoError(t, h.Handle(rec, false))
		e := h.end("")
		list, err := h.books(h.budgets...).List(t.Context(), ref.Tenant)
		require.NoError(t, err)
		require.Len(t, list, 1)
		assert.Equal(t, "one", list[0].Model)
		assert.Zero(t, list[0].Open)
		assert.InDelta(t, e.result.Usage.Total, list[0].Tokens.Used, 0)
	})
}
