package chat_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// task is another action, which is a task or of another kind.
func (h *house) task(kind schemas.Kind) *ledger.State {
	h.t.Helper()
	st, _, err := h.door.Claim(h.t.Context(), schemas.Action{
		ID: "t-1", Tenant: ref.Tenant, Kind: kind, Fingerprint: "f", AcceptedAt: time.Now().UTC(), Payload: json.RawMessage(`{}`),
	})
	require.NoError(h.t, err)
	return st
}

// over ends it.
func (h *house) over(st *ledger.State, o schemas.Outcome) {
	h.t.Helper()
	h.leave(1)
	defer h.leave(-1)
	require.NoError(h.t, h.door.Append(h.t.Context(), st, schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: o}}))
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
		h.drain()
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
