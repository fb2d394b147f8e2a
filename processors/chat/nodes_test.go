package chat_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// patience is how long a message is given back for whose worker may live.
const patience = 10 * time.Second

// requireLater holds an error to say when its message comes again.
func requireLater(t *testing.T, err error, after time.Duration) {
	t.Helper()
	require.Error(t, err)
	ack, again := fault.Disposition(err)
	require.False(t, ack)
	require.Equal(t, after, again)
}

// TestALivingWorker whose message comes to another node keeps its answer, in the middle of
// it and before its first chunk. Neither delivery acknowledges the message.
func TestALivingWorker(t *testing.T) {
	t.Parallel()
	type testCase struct {
		act   act
		first bool // as a consumer delivers that was made anew
	}
	table.Bubble(t, map[string]testCase{
		"in the middle":          {act: act{texts: texts(20), every: time.Second}},
		"in the middle, anew":    {act: act{texts: texts(20), every: time.Second}, first: true},
		"before the first":       {act: act{wait: 8 * time.Second, texts: texts(20), every: time.Second}},
		"before the first, anew": {act: act{wait: time.Minute, texts: texts(20), every: time.Second}, first: true},
	}, func(t *testing.T, tt testCase) {
		h := newHouse(t, modelOf("small", "a", "b"))
		h.budgets = []schemas.Budget{{Name: "all", Tokens: 1_000_000}}
		n1, n2 := h.node("n1"), h.node("n2")
		h.accept(order("small"))
		rec := h.Queue[0].Record
		h.acts["a"] = []act{tt.act}
		done := make(chan error, 1)
		go func() { done <- n1.Handle(t.Context(), rec, true) }()
		time.Sleep(5500 * time.Millisecond)
		requireLater(t, n2.Handle(t.Context(), rec, tt.first), patience)
		require.NoError(t, <-done)
		e := h.end("")
		assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		assert.Equal(t, strings.Join(texts(20), ""), e.given)
		assert.Equal(t, []string{"a"}, h.asked())
		h.accounts(e, "")
		require.NoError(t, n2.Handle(t.Context(), rec, false))
		h.accounts(h.end("settled once"), "")
	})
}

// TestTwoLivingWorkers: one that was silent for so long that another took its completion
// over leaves it to that one. Each has asked once.
func TestTwoLivingWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, modelOf("small", "a"))
		h.budgets = []schemas.Budget{{Name: "all", Tokens: 1_000_000}}
		n1, n2 := h.node("n1"), h.node("n2")
		h.accept(order("small"))
		rec := h.Queue[0].Record
		h.acts["a"] = []act{{wait: 30 * time.Second, texts: texts(20), every: time.Second}}
		first := make(chan error, 1)
		go func() { first <- n1.Handle(t.Context(), rec, true) }()
		time.Sleep(15 * time.Second)
		second := make(chan error, 1)
		go func() { second <- n2.Handle(t.Context(), rec, false) }()
		requireLater(t, <-first, patience)
		require.NoError(t, <-second)
		require.NoError(t, n1.Handle(t.Context(), rec, false))
		e := h.end("")
		assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		assert.Equal(t, strings.Join(texts(20), ""), e.given)
		assert.Equal(t, []string{"a", "a"}, h.asked())
		assert.Equal(t, schemas.Interrupted, e.attempts[0].Result.Code)
		h.accounts(e, "")
	})
}

// TestADeadWorkerOfSeveral is noticed at the second delivery at the latest: the end of its
// stream is no further off than that.
func TestADeadWorkerOfSeveral(t *testing.T) {
	t.Parallel()
	type testCase struct {
		texts   []string
		outcome schemas.Outcome
		code    schemas.Code
		asked   int
	}
	table.Bubble(t, map[string]testCase{
		"in the middle":    {[]string{"Hel"}, schemas.OutcomeFailed, schemas.Interrupted, 1},
		"before the first": {nil, schemas.OutcomeSucceeded, "", 2},
	}, func(t *testing.T, tt testCase) {
		h := newHouse(t, modelOf("small", "a"))
		h.accept(order("small"))
		rec := h.Queue[0].Record
		h.acts["a"] = []act{{texts: tt.texts, hang: true}, {texts: []string{"Hello"}}}
		h.dieIn(rec, 3*time.Second)
		n2 := h.node("n2")
		time.Sleep(patience - 4*time.Second) // its last heartbeat was before its death
		requireLater(t, n2.Handle(t.Context(), rec, false), patience)
		time.Sleep(patience)
		require.NoError(t, n2.Handle(t.Context(), rec, false))
		e := h.end("")
		assert.Equal(t, []any{tt.outcome, tt.code}, []any{e.Outcome, e.Code})
		assert.Len(t, h.asked(), tt.asked)
	})
}

// task is another action, which is a task or of another kind.
func (h *house) task(kind schemas.Kind) *ledger.State {
	h.T.Helper()
	return harness.Claim(h.T, h.Door, schemas.Action{ID: "t-1", Tenant: ref.Tenant, Kind: kind, Payload: json.RawMessage(`{}`)}, nil)
}

// over ends it.
func (h *house) over(st *ledger.State, o schemas.Outcome) {
	h.T.Helper()
	h.Apart(func() {
		harness.Append(h.T, h.Door, st, schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: o}})
	})
}

// TestTheEndOfATask stops its completions within seconds, however it has ended, and before
// the first of an answer too; what was used is charged.
func TestTheEndOfATask(t *testing.T) {
	t.Parallel()
	const after = 20 * time.Second
	type testCase struct {
		outcome schemas.Outcome
		texts   []string
		ofKind  schemas.Kind
		stops   bool
	}
	table.Bubble(t, map[string]testCase{
		"completed":            {schemas.OutcomeSucceeded, []string{"Hel"}, schemas.KindTask, true},
		"failed":               {schemas.OutcomeFailed, []string{"Hel"}, schemas.KindTask, true},
		"canceled":             {schemas.OutcomeCanceled, nil, schemas.KindTask, true},
		"expired":              {schemas.OutcomeExpired, nil, schemas.KindTask, true},
		"under way":            {"", []string{"Hel"}, schemas.KindTask, false},
		"the id is another's":  {schemas.OutcomeSucceeded, []string{"Hel"}, schemas.KindHTTP, false},
		"nobody knows of it":   {"", nil, "", false},
		"ended before it went": {"before", nil, schemas.KindTask, true},
	}, func(t *testing.T, tt testCase) {
		h := newHouse(t, modelOf("small", "a", "b"))
		h.budgets = []schemas.Budget{{Name: "all", Tokens: 1_000_000}}
		var st *ledger.State
		if tt.ofKind != "" {
			st = h.task(tt.ofKind)
		}
		begun, wait := time.Now(), after
		switch tt.outcome {
		case "before":
			h.over(st, schemas.OutcomeSucceeded)
			wait = 0
		case "":
		default:
			time.AfterFunc(after, func() { h.over(st, tt.outcome) })
		}
		h.acts["a"] = []act{{texts: tt.texts, hang: true}}
		o := order("small")
		o.TaskID = "t-1"
		h.accept(o)
		h.Drain()
		took := time.Since(begun)
		e := h.end("")
		if !tt.stops {
			assert.Equal(t, deadline, took)
			assert.Equal(t, schemas.OutcomeExpired, e.Outcome)
			return
		}
		assert.Greater(t, took, wait)
		assert.LessOrEqual(t, took, wait+3*time.Second)
		assert.Equal(t, []any{schemas.OutcomeCanceled, schemas.Canceled, schemas.ChatCanceled}, []any{e.Outcome, e.Code, e.result.Error.Status})
		assert.Contains(t, e.result.Error.Message, "task")
		assert.Equal(t, []string{"a"}, h.asked())
		assert.Equal(t, len(tt.texts) > 0, e.given == "Hel")
		v := h.account("all")
		assert.InDelta(t, float64(e.result.Usage.Total), v.Tokens.Used, 0)
		assert.Zero(t, v.Open)
	})
}
