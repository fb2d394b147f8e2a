package processors_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// unhurried is the house's log, to which a message that was sent comes when it is waited
// for and no sooner. It is as late as a log can be.
type unhurried struct{ ledger.Log }

func (u unhurried) Send(_ context.Context, m schemas.Append) func(context.Context) (uint64, error) {
	return func(ctx context.Context) (uint64, error) { return u.Append(ctx, m) }
}

// watch notes the types of all that is stored, in the order of both streams: evidence
// goes by its kind.
func (h *house) watch() *[]string {
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

// TestStartedStandsFirst: however late the log takes down that an action was begun, it
// has that before the attempt, before the result of a call that needs none, and before
// the evidence of a denial.
func TestStartedStandsFirst(t *testing.T) {
	t.Parallel()
	type testCase struct {
		url  string
		want []string
	}
	table.Run(t, map[string]testCase{
		"sent":   {"http://up.example/x", []string{"started", "attempt", "attempted", schemas.EvidenceAttempt, "settled"}},
		"denied": {"http://elsewhere.example/x", []string{"started", schemas.EvidenceDecision, "settled"}},
	}, func(t *testing.T, tt testCase) {
		h := newHouse()
		rec := h.accept(t, schemas.HTTPCall{Method: "POST", URL: tt.url})
		h.over = func(l ledger.Log) ledger.Log { return unhurried{l} }
		order := h.watch()
		require.NoError(t, h.worker(t, "w").Handle(t.Context(), rec, true))
		require.Equal(t, tt.want, *order)
	})
}

// TestOldWorkIsNotBegunEarly: what a queue that was made anew gives out may have ended long
// ago. Nobody is dialled for it, and it is not written down a second time that it began.
func TestOldWorkIsNotBegunEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		rec := h.accept(t, schemas.HTTPCall{Method: "POST", URL: "http://up.example/x"})
		require.NoError(t, h.worker(t, "w").Handle(t.Context(), rec, true))
		require.Equal(t, 1, h.opened)
		h.over = func(l ledger.Log) ledger.Log { return unhurried{l} }
		time.Sleep(time.Minute)
		require.NoError(t, h.worker(t, "w2").Handle(t.Context(), rec, true))
		require.Equal(t, 1, h.opened)
		require.Equal(t, 1, h.sent)
	})
}

// TestNothingIsSentUnlessBegun: who finds at the attempt that another has begun the
// action sends nothing and leaves nothing.
func TestNothingIsSentUnlessBegun(t *testing.T) {
	t.Parallel()
	table.Run(t, map[string]string{"sent": "http://up.example/x", "denied": "http://elsewhere.example/x"}, func(t *testing.T, url string) {
		h := newHouse()
		rec := h.accept(t, schemas.HTTPCall{Method: "POST", URL: url})
		h.over = func(l ledger.Log) ledger.Log { return unhurried{l} }
		h.refuse = func(schemas.Append) error { return fault.ErrFenced }
		var later *fault.Later
		require.ErrorAs(t, h.worker(t, "w").Handle(t.Context(), rec, true), &later)
		require.Zero(t, h.sent)
		require.Empty(t, h.evidence(t))
	})
}
