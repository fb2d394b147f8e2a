package chat_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/budget"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/telemetry"
	"weir/internal/weirtest/table"
	"weir/processors"
	"weir/processors/admit"
	"weir/processors/call"
	"weir/processors/chat"
	"weir/processors/guard"
	"weir/processors/park"
	"weir/processors/settle"
	"weir/schemas"
)

// node is one of several workers on the house's log.
func (h *house) node(name string) *processors.Pipeline {
	metrics := telemetry.NewMetrics()
	l := ledger.New(h.log, layout, time.Now)
	recorder := settle.NewRecorder(publisher{h.log}, h.log, metrics)
	caller := call.New(l, guard.New(h.inForce, &h.book), nil, call.Config{Worker: name, Barrier: h.barrier})
	book := budget.NewBook(h.shelf, budget.Config{Budgets: func() []schemas.Budget { return h.budgets }})
	performer := chat.New(l, caller, recorder, call.Answers{Blobs: l}, chat.Config{Models: h.known, Adapter: h.adapter, Budgets: book})
	return processors.NewPipeline(l, h.log, name, processors.Stages{
		Admit:      admit.New(l, admit.Config{Worker: name}),
		Performers: map[schemas.Kind]processors.Performer{schemas.KindChat: performer},
		Caller:     caller, Evidence: recorder, Settle: settle.New(l, h.barrier, metrics),
		Park: park.New(publisher{h.log}, metrics, slog.New(slog.DiscardHandler)), Barrier: h.barrier,
	})
}

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
		rec := h.queue[0].rec
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
		rec := h.queue[0].rec
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
		rec := h.queue[0].rec
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
