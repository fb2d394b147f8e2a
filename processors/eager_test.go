package processors_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// watch notes the types of all that is stored, in the order of both streams: evidence
// goes by its kind.
func (h *env) watch() *[]string {
	var order []string
	h.refuse = func(m schemas.Append) error {
		var doc struct {
			Type schemas.EventType `json:"type"`
			Kind string            `json:"kind"`
		}
		if json.Unmarshal(m.Data, &doc) == nil {
			order = append(order, string(doc.Type)+doc.Kind)
		}
		return nil
	}
	return &order
}

// TestRecordsOfACall: three and its evidence for one that succeeds at its first attempt, and no
// attempt for one that is denied.
func TestRecordsOfACall(t *testing.T) {
	t.Parallel()
	type testCase struct {
		url  string
		want []string
	}
	table.Run(t, map[string]testCase{
		"sent":   {"http://up.example/x", []string{"attempt", schemas.EvidenceAttempt, "settled"}},
		"denied": {"http://elsewhere.example/x", []string{schemas.EvidenceDecision, "settled"}},
	}, func(t *testing.T, tt testCase) {
		h := newEnv()
		rec := h.accept(t, schemas.HTTPCall{Method: "POST", URL: tt.url})
		order := h.watch()
		require.NoError(t, h.worker(t, "w").Handle(t.Context(), rec, true))
		require.Equal(t, tt.want, *order)
	})
}

// succeed claims a successor as ingress does that dies right after it, and its predecessor
// before it, if there is one. It returns the successor's accepted record.
func (h *env) succeed(t *testing.T, before bool) schemas.Record {
	t.Helper()
	claim := func(id, supersedes string) *ledger.State {
		return harness.Claim(t, h.ingressLedger(), schemas.Action{ID: id, Kind: schemas.KindHTTP, Supersedes: supersedes}, schemas.HTTPCall{
			Method: "GET", URL: "http://up.example/x",
		})
	}
	if before {
		end := &schemas.Settled{Outcome: schemas.OutcomeFailed, Code: schemas.AgentUnavailable}
		harness.Append(t, h.ingressLedger(), claim("a", ""), schemas.Event{Type: schemas.EventSettled, Settled: end})
	}
	return harness.Accepted(t, h.log, claim("a~2", "a").Ref)
}

// linked checks that two actions name each other, once, and have one end each.
func (h *env) linked(t *testing.T, what string) {
	t.Helper()
	for id, want := range map[string]map[schemas.EventType]int{
		"a":   {schemas.EventSettled: 1, schemas.EventSuperseded: 1},
		"a~2": {schemas.EventSettled: 1},
	} {
		st := harness.Load(t, h.ingressLedger(), schemas.Ref{Tenant: "default", Kind: schemas.KindHTTP, ID: id})
		got := map[schemas.EventType]int{}
		for _, ev := range st.Events {
			if ev.Type == schemas.EventSettled || ev.Type == schemas.EventSuperseded {
				got[ev.Type]++
			}
		}
		assert.Equal(t, want, got, "%s: %s", what, id)
		if id == "a" {
			assert.Equal(t, "a~2", st.SupersededBy, what)
			assert.Equal(t, "failed", st.Status(), what)
		} else {
			assert.Equal(t, "a", st.Action.Supersedes, what)
		}
	}
}

// TestASuccessorIsLinked: whatever dies after its claim, the two actions name each other.
func TestASuccessorIsLinked(t *testing.T) {
	t.Parallel()
	for _, kept := range []bool{false, true} {
		for n, over := 0, false; !over; n++ {
			h := newEnv()
			rec := h.succeed(t, true)
			h.DieAt(n, kept)
			over = h.worker(t, "w1").Handle(t.Context(), rec, true) == nil
			h.Heal()
			require.NoError(t, h.worker(t, "w2").Handle(t.Context(), rec, false))
			h.linked(t, "crash")
			require.Less(t, n, 20)
		}
	}
}

// TestACanceledSuccessorIsLinked, which ingress has ended before a worker took it.
func TestACanceledSuccessorIsLinked(t *testing.T) {
	t.Parallel()
	h := newEnv()
	rec := h.succeed(t, true)
	l := h.ingressLedger()
	st, err := l.Find(t.Context(), "default", "a~2")
	require.NoError(t, err)
	harness.Append(t, l, st, schemas.Event{Type: schemas.EventCancel})
	harness.Append(t, l, st, schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeCanceled}})
	for range 2 {
		require.NoError(t, h.worker(t, "w1").Handle(t.Context(), rec, false))
	}
	h.linked(t, "canceled")
}

// TestASuccessorAlone: a predecessor that the log has dropped is not missed.
func TestASuccessorAlone(t *testing.T) {
	t.Parallel()
	h := newEnv()
	require.NoError(t, h.worker(t, "w1").Handle(t.Context(), h.succeed(t, false), true))
	st, err := h.ingressLedger().Find(t.Context(), "default", "a~2")
	require.NoError(t, err)
	require.Equal(t, schemas.OutcomeSucceeded, st.Settled.Outcome)
}
