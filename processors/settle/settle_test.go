package settle_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/internal/telemetry"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/memlog"
	"weir/internal/weirtest/table"
	"weir/processors/settle"
	"weir/schemas"
)

var layout = schemas.Layout{Partitions: 1}

func claim(tb testing.TB, l *ledger.Ledger, id string) *ledger.State {
	tb.Helper()
	st, _, err := l.Claim(tb.Context(), schemas.Action{ID: id, Tenant: "t", Kind: schemas.KindHTTP, Fingerprint: "f", AcceptedAt: time.Now().UTC()})
	require.NoError(tb, err)
	return st
}

func TestSettle(t *testing.T) {
	t.Parallel()
	l := ledger.New(memlog.New(layout, time.Now, memlog.Hooks{}), layout, nil)
	waited := 0
	s := settle.Settler{Ledger: l, Barrier: func(context.Context) error { waited++; return nil }, Metrics: telemetry.NewMetrics()}

	st := claim(t, l, "small")
	require.NoError(t, s.Settle(t.Context(), st, settle.Outcome{Outcome: schemas.OutcomeSucceeded, Result: map[string]string{"a": "<b>"}}))
	assert.Equal(t, 1, waited, "the end is shown after the barrier")
	loaded, err := l.Load(t.Context(), st.Ref)
	require.NoError(t, err)
	assert.Equal(t, `{"a":"<b>"}`, string(loaded.Settled.Result), "the document keeps its bytes") //nolint:testifylint // to the byte
	require.NoError(t, s.Settle(t.Context(), st, settle.Outcome{Outcome: schemas.OutcomeFailed}))
	assert.Equal(t, loaded.N, st.N, "what is settled is left alone")

	st = claim(t, l, "large")
	require.NoError(t, s.Settle(t.Context(), st, settle.Outcome{Outcome: schemas.OutcomeSucceeded, Result: strings.Repeat("x", schemas.InlineLimit)}))
	assert.Empty(t, st.Settled.Result)
	doc, err := l.Blob(t.Context(), st.Settled.Result, st.Settled.ResultBlob)
	require.NoError(t, err)
	assert.Len(t, doc, schemas.InlineLimit+2)

	st = claim(t, l, "long completion")
	result := schemas.ChatResult{Completion: []byte(`"` + strings.Repeat("x", schemas.InlineLimit) + `"`), Model: "m", Usage: &schemas.ChatUsage{Prompt: 1}}
	require.NoError(t, s.Settle(t.Context(), st, settle.Outcome{Outcome: schemas.OutcomeSucceeded, Result: result}))
	assert.Equal(t, `{"model":"m","usage":{"prompt_tokens":1,"completion_tokens":0,"total_tokens":0}}`, string(st.Settled.Result), "the figures stay on the log") //nolint:testifylint // to the byte
	doc, err = l.Result(t.Context(), st.Settled)
	require.NoError(t, err)
	var whole schemas.ChatResult
	require.NoError(t, json.Unmarshal(doc, &whole))
	assert.Equal(t, result, whole)
}

// TestWhatAnEndRestsOn: a power cut that keeps an end may not take from under it what
// nobody could bring back.
func TestWhatAnEndRestsOn(t *testing.T) {
	t.Parallel()
	type testCase struct {
		result any
		loose  bool
		want   []string
	}
	table.Run(t, map[string]testCase{
		"a small result":                         {result: "x", want: []string{"end", "barrier"}},
		"a result that is put aside":             {result: strings.Repeat("x", schemas.InlineLimit), want: []string{"barrier", "end", "barrier"}},
		"evidence that no event of it calls for": {result: "x", loose: true, want: []string{"barrier", "end", "barrier"}},
	}, func(t *testing.T, tt testCase) {
		var order []string
		l := ledger.New(memlog.New(layout, time.Now, memlog.Hooks{After: func(m schemas.Append, _ uint64) error {
			if m.Ends() {
				order = append(order, "end")
			}
			return nil
		}}), layout, nil)
		s := settle.Settler{Ledger: l, Barrier: func(context.Context) error { order = append(order, "barrier"); return nil }, Metrics: telemetry.NewMetrics()}
		st := claim(t, l, "a")
		st.Underived = tt.loose
		require.NoError(t, s.Settle(t.Context(), st, settle.Outcome{Outcome: schemas.OutcomeSucceeded, Result: tt.result}))
		require.Equal(t, tt.want, order)
	})
}

// TestLooseEvidence: what follows from an attempt can be left again, and nothing else can.
func TestLooseEvidence(t *testing.T) {
	t.Parallel()
	log := memlog.New(layout, time.Now, memlog.Hooks{})
	l := ledger.New(log, layout, nil)
	r := harness.Recorder(log)
	leave := func(st *ledger.State, id string) bool {
		require.NoError(t, r.Store(t.Context(), st, schemas.Evidence{ID: id, Tenant: "t", ActionID: st.ID, Kind: schemas.EvidenceAttempt, Payload: json.RawMessage(`{}`)}))
		return st.Underived
	}
	require.False(t, leave(claim(t, l, "a"), settle.AttemptID("a", schemas.Attempt{Number: 1})))
	require.True(t, leave(claim(t, l, "b"), "b.denial.0.0"))
	require.True(t, leave(claim(t, l, "c"), settle.ClosingID("c")))
	st := claim(t, l, "e")
	st.Attempts = []ledger.Attempt{{Attempt: schemas.Attempt{Number: 1}, Result: &schemas.Attempted{}}, {Attempt: schemas.Attempt{Number: 2}, Result: &schemas.Attempted{Code: schemas.DenyAddress}}}
	for _, a := range st.Attempts {
		require.NoError(t, settle.Record(r, st, settle.Made)(t.Context(), a))
	}
	all, err := settle.Records(st, settle.Made)
	require.NoError(t, err)
	require.Equal(t, []string{"e.attempt.0.1.0", "e.attempt.0.2.0", "e.attempt.0.2.0.denial"}, []string{all[0].ID, all[1].ID, all[2].ID})
	require.Len(t, harness.Evidence(t, log, "e"), len(all))
	large := claim(t, l, "d")
	large.Action.PayloadBlob = "x"
	require.True(t, leave(large, settle.AttemptID("d", schemas.Attempt{Number: 1})), "its payload is not at hand when the message comes again")
}

func TestSettleWhoseBarrierFails(t *testing.T) {
	t.Parallel()
	l := ledger.New(memlog.New(layout, time.Now, memlog.Hooks{}), layout, nil)
	broken := errors.New("the disk is gone")
	s := settle.Settler{Ledger: l, Barrier: func(context.Context) error { return broken }, Metrics: telemetry.NewMetrics()}
	require.ErrorIs(t, s.Settle(t.Context(), claim(t, l, "a"), settle.Outcome{Outcome: schemas.OutcomeSucceeded}), broken)
}

func TestAttemptEvidenceHoldsNoContent(t *testing.T) {
	t.Parallel()
	st := &ledger.State{Ref: schemas.Ref{Tenant: "t", Kind: schemas.KindHTTP, ID: "a"}}
	try := ledger.Attempt{
		Attempt: schemas.Attempt{Number: 2, Decision: schemas.Decision{Entry: "up", Version: "v"}},
		Result: &schemas.Attempted{Status: 200, Sent: true, Answer: &schemas.Answer{
			Hash: "h", Snippet: "CANARY", Body: json.RawMessage(`"CANARY"`), Headers: []schemas.Header{{Name: "x", Value: "CANARY"}},
		}},
	}
	ev, err := settle.Attempt(st, try, "GET", "GET http://up/?")
	require.NoError(t, err)
	assert.NotContains(t, string(ev.Payload), "CANARY")
	assert.Contains(t, string(ev.Payload), `"response_hash":"h"`)
	assert.Equal(t, "up", ev.Entry)
	assert.Equal(t, "v", ev.PolicyVersion)
}

func BenchmarkSettle(b *testing.B) {
	l := ledger.New(memlog.New(layout, time.Now, memlog.Hooks{}), layout, nil)
	s := settle.Settler{Ledger: l, Barrier: func(context.Context) error { return nil }, Metrics: telemetry.NewMetrics()}
	result := schemas.HTTPResult{Answer: &schemas.Answer{
		Status: 200, JSON: true, Body: json.RawMessage(`{"ok":true}`), Headers: []schemas.Header{{Name: "content-type", Value: "application/json"}},
	}}
	states := make([]*ledger.State, b.N)
	for i := range states {
		states[i] = claim(b, l, strconv.Itoa(i))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for _, st := range states {
		if err := s.Settle(b.Context(), st, settle.Outcome{Outcome: schemas.OutcomeSucceeded, Result: result}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestAllIsRecalled: however many records an action has left, none is left twice.
func TestAllIsRecalled(t *testing.T) {
	t.Parallel()
	log := memlog.New(layout, time.Now, memlog.Hooks{})
	l := ledger.New(log, layout, nil)
	r := harness.Recorder(log)
	st := claim(t, l, "a")
	const many = 2_050 // of three entries
	records := make([]schemas.Evidence, many)
	for i := range records {
		records[i] = schemas.Evidence{ID: "a." + strconv.Itoa(i), Tenant: "t", ActionID: "a", Kind: schemas.EvidenceTask, Entry: strconv.Itoa(i % 3), Payload: []byte("{}")}
	}
	require.NoError(t, r.Store(t.Context(), st, records...))
	require.NoError(t, l.Append(t.Context(), st, schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "w"}}))
	again, err := l.Load(t.Context(), st.Ref)
	require.NoError(t, err)
	fresh := schemas.Evidence{ID: "a.new", Tenant: "t", ActionID: "a", Kind: schemas.EvidenceTask, Payload: []byte("{}")}
	require.NoError(t, r.Store(t.Context(), again, append(records[many-3:len(records):len(records)], fresh)...))
	stored, _, err := log.Page(t.Context(), schemas.EvidenceStream, schemas.EvidenceRoot+".>", 1, 2*many, 1<<30)
	require.NoError(t, err)
	require.Len(t, stored, many+1)
}
