package chat_test

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// life is a completion as its upstreams make it. None of them knows that workers die.
type life struct {
	order   schemas.ChatOrder
	acts    map[string][]act
	budgets []schemas.Budget
	outcome schemas.Outcome
	cancel  time.Duration
	change  func(a *schemas.Action)
	rules   []schemas.Rule
}

func lives() map[string]func() life {
	all := []schemas.Budget{
		{Name: "all", Tokens: 1_000_000, Requests: 100, Nanos: 1 << 50},
		{Name: "mine", Per: []string{schemas.PerToken, schemas.PerModel}, Tokens: 500_000, Window: time.Hour},
	}
	return map[string]func() life{
		"a stream": func() life {
			return life{order: order("small"), budgets: all, acts: map[string][]act{"a": {{texts: []string{"Hel", "lo"}, every: time.Millisecond}}}, outcome: schemas.OutcomeSucceeded}
		},
		"a whole": func() life { return life{order: whole(), budgets: all, outcome: schemas.OutcomeSucceeded} },
		"the third answers": func() life {
			return life{order: order("small"), budgets: all, acts: map[string][]act{
				"a": {{status: 503}}, "b": {{open: &fault.Call{Code: schemas.UpstreamConnect}}}, "c": {{texts: []string{"Hello"}}},
			}, outcome: schemas.OutcomeSucceeded}
		},
		"it breaks off": func() life {
			a := broke(schemas.UpstreamTruncated, 200)
			a.texts, a.every = []string{"Hel", "lo"}, time.Millisecond
			return life{order: order("small"), budgets: all, acts: map[string][]act{"a": {a}}, outcome: schemas.OutcomeFailed}
		},
		"canceled": func() life {
			return life{order: order("small"), budgets: all, acts: map[string][]act{"a": {{texts: []string{"Hel"}, hang: true}}}, cancel: time.Minute, outcome: schemas.OutcomeCanceled}
		},
		"it is over a budget": func() life {
			return life{order: order("small"), budgets: []schemas.Budget{all[0], {Name: "none", Tokens: 10}}, outcome: schemas.OutcomeDenied}
		},
		"no other call fits": func() life {
			slow := broke(schemas.UpstreamTimeout, 0)
			return life{
				order: whole(), budgets: []schemas.Budget{all[0], {Name: "tight", Tokens: 1_500}}, outcome: schemas.OutcomeFailed,
				acts: map[string][]act{"a": {slow}, "b": {slow}},
			}
		},
		"it is cut off": func() life {
			return life{
				order: order("small"), budgets: []schemas.Budget{{Name: "all", Tokens: 410}},
				acts:    map[string][]act{"a": {{texts: manyTexts(30), every: time.Millisecond}}},
				outcome: schemas.OutcomeFailed,
			}
		},
		"a rule answers": func() life {
			return life{
				order: order("small"), budgets: all, rules: []schemas.Rule{rulebook.Mock("m", "*://*:*/*", 200, `{}`)},
				acts:    map[string][]act{"a": {{texts: []string{"Hel", "lo"}, every: time.Millisecond}}},
				outcome: schemas.OutcomeSucceeded,
			}
		},
		"nobody lets it": func() life {
			return life{order: order("small"), budgets: all, outcome: schemas.OutcomeDenied, change: func(a *schemas.Action) { a.Entries = []string{"other"} }}
		},
	}
}

// TestCrashAtEveryStep kills the worker at each thing it does, done or not: there is one
// end, nobody is asked behind the first chunk, evidence and budgets say each thing once,
// and what was read as it came is what the end says.
func TestCrashAtEveryStep(t *testing.T) {
	t.Parallel()
	all := lives()
	for d, name := range map[schemas.Dialect]string{
		schemas.DialectResponses: "a stream", schemas.DialectMessages: "a stream", schemas.DialectCount: "a whole", // the others do not depend on the dialect
	} {
		all[string(d)+": "+name] = func() life {
			l := lives()[name]()
			l.order = in(d, l.order)
			return l
		}
	}
	table.Run(t, all, func(t *testing.T, of func() life) {
		harness.EachStep(t, 2, func(t *testing.T, n int, done bool, msg string) bool { //nolint:thelper // it is the test
			return crash(t, of(), n, done, msg)
		})
	})
}

func crash(t *testing.T, l life, n int, kept bool, msg string) (crashed bool) {
	t.Helper()
	h := newEnv(t, modelOf("small", "a", "b", "c"))
	h.budgets = l.budgets
	if l.rules != nil {
		h.book.Put(t, l.rules...)
	}
	maps.Copy(h.acts, l.acts)
	if l.change == nil {
		l.change = func(*schemas.Action) {}
	}
	h.accept(l.order, l.change)
	h.DieAt(n, kept)
	if l.cancel > 0 {
		time.AfterFunc(l.cancel, h.cancel)
	}
	h.Advance(2 * deadline)
	e := h.end(msg)
	broken := e.result.Error != nil && e.Code == schemas.Interrupted
	if !broken {
		require.Equal(t, l.outcome, e.Outcome, msg)
	} else {
		require.Positive(t, e.deltas, "%s: another is asked as long as nobody has read anything", msg)
	}
	spoke := 0
	for i, a := range e.attempts {
		require.Equal(t, i, a.Step-e.attempts[0].Step, msg)
		require.Equal(t, l.rules == nil, !a.Mocked(), msg)
		require.Equal(t, 1, a.Number, msg)
		if a.Result.Status == 200 {
			spoke++
		}
	}
	require.LessOrEqual(t, spoke, 1, msg)
	h.accounts(e, msg)
	require.LessOrEqual(t, len(h.metrics.called), len(e.attempts), "%s: a call was counted twice", msg)
	require.LessOrEqual(t, h.Crashes, 1, msg)
	return h.Crashes > 0
}

// accounts holds what the budgets say against the end.
func (h *env) accounts(e end, msg string) {
	h.T.Helper()
	for _, b := range h.budgets {
		v := h.account(b.Name)
		require.Zero(h.T, v.Open, "%s: something is still held of %s", msg, b.Name)
		var used schemas.ChatUsage
		if e.result.Usage != nil {
			used = *e.result.Usage
		}
		if v.Tokens != nil && b.Window == 0 {
			assert.InDelta(h.T, float64(used.Total), v.Tokens.Used, 0, "%s: %s", msg, b.Name)
		}
		if v.Requests != nil && b.Window == 0 {
			require.LessOrEqual(h.T, v.Requests.Used, 1.0, "%s: one request, however many upstreams were asked", msg)
		}
		if v.USD != nil && b.Window == 0 {
			assert.InDelta(h.T, float64(used.Nanos)/1e9, v.USD.Used, 1e-9, "%s: %s", msg, b.Name)
		}
	}
}

// TestALivingWorker whose message comes to another node keeps its answer, in the middle of it and
// before its first chunk. Neither delivery acknowledges the message.
func TestALivingWorker(t *testing.T) {
	t.Parallel()
	table.Bubble(t, map[string]act{
		"in the middle":    {texts: manyTexts(20), every: time.Second},
		"before the first": {wait: 8 * time.Second, texts: manyTexts(20), every: time.Second},
	}, func(t *testing.T, a act) {
		for _, first := range []bool{false, true} { // as a consumer delivers that was made anew
			h := newEnv(t, modelOf("small", "a", "b"))
			h.budgets = []schemas.Budget{{Name: "all", Tokens: 1_000_000}}
			n1, n2 := h.node("n1"), h.node("n2")
			rec := h.message(order("small"))
			h.acts["a"] = []act{a}
			done := make(chan error, 1)
			go func() { done <- n1.Handle(t.Context(), rec, true) }()
			time.Sleep(5500 * time.Millisecond)
			harness.Later(t, n2.Handle(t.Context(), rec, first), harness.Patience)
			require.NoError(t, <-done)
			e := h.end("")
			assert.Equal(t, []any{schemas.OutcomeSucceeded, []string{"a"}}, []any{e.Outcome, h.asked()})
			h.accounts(e, "")
		}
	})
}

// task is another action, which is a task or of another kind.
func (h *env) task(kind schemas.Kind) *ledger.State {
	h.T.Helper()
	return harness.Claim(h.T, h.Ingress, schemas.Action{ID: "t-1", Tenant: ref.Tenant, Kind: kind, Payload: json.RawMessage(`{}`)}, nil)
}

// over ends it.
func (h *env) over(st *ledger.State, o schemas.Outcome) {
	h.T.Helper()
	h.Apart(func() {
		harness.Append(h.T, h.Ingress, st, schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: o}})
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
		h := newEnv(t, modelOf("small", "a", "b"))
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
