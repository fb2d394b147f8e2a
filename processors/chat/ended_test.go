package chat_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/budget"
	"weir/internal/fault"
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
func (h *house) settled(s schemas.Settled) {
	h.t.Helper()
	st, err := h.door.Load(h.t.Context(), ref)
	require.NoError(h.t, err)
	require.NoError(h.t, h.door.Append(h.t.Context(), st, schemas.Event{Type: schemas.EventSettled, Settled: &s}))
}

// TestWhatWasPutAside is charged by what its attempts have used, the open one too,
// whoever put it aside and however large it is; and nothing stays held.
func TestWhatWasPutAside(t *testing.T) {
	t.Parallel()
	poison := schemas.Settled{Outcome: schemas.OutcomeFailed, Code: schemas.Poison}
	for name, order := range map[string]func() schemas.ChatOrder{
		"small": func() schemas.ChatOrder { return order("small") }, "large": large,
	} {
		for by, aside := range map[string]func(h *house, rec schemas.Record) error{
			"by this worker": func(h *house, rec schemas.Record) error {
				return h.node("n2").Condemn(h.t.Context(), rec, &fault.Parked{Code: schemas.Poison})
			},
			"by one that died then": func(h *house, rec schemas.Record) error {
				h.settled(poison)
				return h.node("n2").Handle(h.t.Context(), rec, false)
			},
		} {
			for sent, texts := range map[string][]string{"nothing came": nil, "something came": {"Hello there"}} {
				t.Run(name+", "+by+", "+sent, func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						h := newHouse(t, modelOf("small", "a"))
						h.budgets = []schemas.Budget{{Name: "all", Tokens: 1_000_000}}
						h.acts["a"] = []act{{texts: texts, hang: true}}
						h.accept(order())
						rec := h.queue[0].rec
						h.dieIn(rec, time.Minute)
						require.Equal(t, 1, h.account("all").Open)
						require.NoError(t, aside(h, rec))
						v := h.account("all")
						assert.Zero(t, v.Open)
						assert.GreaterOrEqual(t, v.Tokens.Used, 100.0)
						assert.Equal(t, texts != nil, v.Tokens.Used > 100)
						require.NoError(t, h.node("n3").Handle(t.Context(), rec, false))
						assert.InDelta(t, v.Tokens.Used, h.account("all").Tokens.Used, 0, "a repeat changes nothing")
					})
				})
			}
		}
	}
}

// dieIn has a worker take a message up and die after a while.
func (h *house) dieIn(rec schemas.Record, d time.Duration) {
	h.t.Helper()
	h.toWork(true)
	done := make(chan error, 1)
	ctx, stop, worker := h.ctx, h.stop, h.node("n1")
	go func() { done <- worker.Handle(ctx, rec, true) }()
	time.Sleep(d)
	h.mu.Lock()
	h.dead = true
	h.mu.Unlock()
	stop()
	require.Error(h.t, <-done)
	h.toWork(false)
}

// TestPutAsideBehindAFailure: an attempt that has ended is charged, though nobody knows
// what became of the one behind it.
func TestPutAsideBehindAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, modelOf("small", "a", "b"))
		h.budgets = []schemas.Budget{{Name: "all", Tokens: 1_000_000}}
		h.acts["a"] = []act{broke(schemas.UpstreamTimeout, 0)}
		h.acts["b"] = []act{{hang: true}}
		h.accept(order("small"))
		rec := h.queue[0].rec
		h.dieIn(rec, time.Minute)
		require.NoError(t, h.node("n2").Condemn(t.Context(), rec, &fault.Parked{Code: schemas.Poison}))
		v := h.account("all")
		assert.Zero(t, v.Open)
		assert.InDelta(t, 200, v.Tokens.Used, 0, "each of the two was sent")
	})
}

// TestAnAnswerThatCannotBeRead has its completion put aside, and is charged by an estimate.
func TestAnAnswerThatCannotBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, modelOf("small", "a"))
		h.budgets = []schemas.Budget{{Name: "all", Tokens: 1_000_000}}
		h.acts["a"] = []act{{hang: true}}
		h.accept(order("small"))
		rec := h.queue[0].rec
		h.dieIn(rec, time.Minute)
		st, err := h.door.Load(t.Context(), ref)
		require.NoError(t, err)
		require.NoError(t, h.door.Append(t.Context(), st, schemas.Event{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{
			Number: 1, Sent: true, Status: 200, Answer: &schemas.Answer{Status: 200, Body: json.RawMessage(`"?"`)},
		}}))
		require.NoError(t, h.node("n2").Handle(t.Context(), rec, false))
		st, err = h.door.Load(t.Context(), ref)
		require.NoError(t, err)
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
		h := newHouse(t, modelOf("small", "a"))
		h.budgets = []schemas.Budget{{Name: "all", Tokens: 1_000_000}}
		h.accept(order())
		rec := h.queue[0].rec
		h.settled(schemas.Settled{Outcome: schemas.OutcomeSucceeded, Result: json.RawMessage(`{"completion":{}}`)})
		book := budget.NewBook(h.shelf, budget.Config{Budgets: func() []schemas.Budget { return h.budgets }})
		_, err := book.Reserve(t.Context(), budget.Order{
			Tenant: ref.Tenant, Action: ref.ID, Token: "tok-1", Models: []string{"small"}, Prompt: 400, Output: 1000, Until: time.Now().Add(time.Hour),
		})
		require.NoError(t, err)
		require.Equal(t, 1, h.account("all").Open)
		require.NoError(t, h.node("n2").Handle(t.Context(), rec, false))
		assert.Zero(t, h.account("all").Open)
		assert.Zero(t, h.account("all").Tokens.Used)
	})
}
