package accept_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress/accept"
	"weir/internal/fault"
	"weir/schemas"
)

// run is a request for a run.
func run(id string) accept.Request {
	return accept.Request{Name: byID(id), Tenant: "t", Kind: schemas.KindRun, TaskType: "T", Payload: json.RawMessage(`{"task_type":"T"}`), Timeout: time.Minute}
}

// away is how a run ends whose agent could not be asked.
func away() schemas.Settled {
	return schemas.Settled{Outcome: schemas.OutcomeFailed, Code: schemas.AgentUnavailable}
}

// end writes a run's attempts and its end.
func (w *world) end(tb testing.TB, id string, s schemas.Settled, tries ...schemas.Attempted) {
	tb.Helper()
	st, err := w.ledger.Find(tb.Context(), "t", id)
	require.NoError(tb, err)
	for i, res := range tries {
		res.Number = i + 1
		require.NoError(tb, w.ledger.Append(tb.Context(), st, schemas.Event{
			Type: schemas.EventAttempted, Attempt: &schemas.Attempt{Number: i + 1, Class: schemas.ClassOnce}, Attempted: &res,
		}))
	}
	s.Attempts = len(tries)
	require.NoError(tb, w.ledger.Append(tb.Context(), st, schemas.Event{Type: schemas.EventSettled, Settled: &s}))
}

// TestWhatGetsASuccessor: a run that ended without having been sent anywhere, and that may
// fare better. Every other repeat joins.
func TestWhatGetsASuccessor(t *testing.T) {
	t.Parallel()
	failed := func(code schemas.Code) schemas.Settled {
		return schemas.Settled{Outcome: schemas.OutcomeFailed, Code: code}
	}
	ended := func(o schemas.Outcome) schemas.Settled { return schemas.Settled{Outcome: o} }
	unsent, sent := schemas.Attempted{Code: schemas.UpstreamConnect}, schemas.Attempted{Code: schemas.UpstreamReset, Sent: true}
	for name, tt := range map[string]struct {
		end   schemas.Settled
		tries []schemas.Attempted
		next  bool
	}{
		"no agent":               {away(), nil, true},
		"no connection":          {away(), []schemas.Attempted{unsent, unsent, unsent}, true},
		"no connection to a URL": {failed(schemas.RetriesExhausted), []schemas.Attempted{unsent, unsent}, true},
		"no name":                {failed(schemas.UpstreamDNS), []schemas.Attempted{{Code: schemas.UpstreamDNS}}, true},
		"no place in time":       {ended(schemas.OutcomeExpired), nil, true},
		"busy":                   {away(), []schemas.Attempted{{Sent: true, Status: 503}}, false},
		"sent once":              {away(), []schemas.Attempted{unsent, sent}, false},
		"sent, and retried":      {failed(schemas.RetriesExhausted), []schemas.Attempted{sent, unsent}, false},
		"cut":                    {failed(schemas.UpstreamReset), []schemas.Attempted{sent}, false},
		"out of time":            {ended(schemas.OutcomeExpired), []schemas.Attempted{sent}, false},
		"not sent, out of time":  {ended(schemas.OutcomeExpired), []schemas.Attempted{unsent}, false},
		"failed":                 {failed(schemas.TaskFailed), nil, false},
		"denied":                 {ended(schemas.OutcomeDenied), nil, false},
		"canceled":               {ended(schemas.OutcomeCanceled), nil, false},
		"unknown":                {ended(schemas.OutcomeUnknown), []schemas.Attempted{sent}, false},
		"done":                   {ended(schemas.OutcomeSucceeded), []schemas.Attempted{{Sent: true, Status: 200}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.accept(t, run("x"))
			out := w.accept(t, run("x"))
			require.Equal(t, "x", out.ID, "it has not ended")
			w.end(t, "x", tt.end, tt.tries...)

			var named []string
			again := run("x")
			again.Before = func(ref schemas.Ref) { named = append(named, ref.ID) }
			out = w.accept(t, again)
			if !tt.next {
				require.Equal(t, "x", out.ID)
				require.True(t, out.Receipt.Duplicate)
				return
			}
			require.Equal(t, "x~2", out.ID)
			require.Equal(t, "x~2", out.Receipt.ID)
			require.False(t, out.Receipt.Duplicate)
			require.Equal(t, []string{"x", "x~2"}, named)
			first, second := w.find(t, "x").Action, w.find(t, "x~2").Action
			require.Equal(t, "x", second.Supersedes)
			require.Equal(t, first.Fingerprint, second.Fingerprint)
			require.Equal(t, time.Minute, second.Deadline.Sub(second.AcceptedAt), "its time is its own")
			require.True(t, second.AcceptedAt.After(first.AcceptedAt))
			require.Equal(t, out.Before+1, w.find(t, "x~2").Seq)

			out = w.accept(t, run("x"))
			require.Equal(t, "x~2", out.ID, "which the next repeat joins")
			require.True(t, out.Receipt.Duplicate)
			w.end(t, "x~2", schemas.Settled{Outcome: schemas.OutcomeSucceeded})
			out = w.accept(t, run("x"))
			require.Equal(t, "x~2", out.ID)
			require.Equal(t, "succeeded", out.Receipt.Status)
		})
	}
}

// TestOneSuccessor: however many repeats race, one begins it; and those that came before it
// ended join it, although it ends as its predecessor did.
func TestOneSuccessor(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.accept(t, run("x"))
	w.end(t, "x", away())
	var wg sync.WaitGroup
	begun := make(chan string, 50)
	for range cap(begun) {
		wg.Go(func() {
			out, err := w.Accept(t.Context(), run("x"))
			if err != nil || out.ID != "x~2" {
				t.Error(out.ID, err)
			}
			if !out.Receipt.Duplicate {
				begun <- out.ID
			}
		})
	}
	wg.Wait()
	require.Len(t, begun, 1)

	// While a repeat reads how the first one ended, another begins the second, which ends too.
	w.end(t, "x~2", away())
	late := run("x")
	late.Before = func(ref schemas.Ref) {
		if ref.ID == "x~3" {
			other := w.accept(t, run("x"))
			require.Equal(t, "x~3", other.ID)
			w.end(t, "x~3", away())
		}
	}
	out := w.accept(t, late)
	require.Equal(t, "x~3", out.ID)
	require.True(t, out.Receipt.Duplicate)
}

// TestWhoBeginsNoSuccessor: a stream that is resumed, a task type that is not served any more, a
// queue that is full; they join what there is.
func TestWhoBeginsNoSuccessor(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, id := range []string{"x", "x"} {
		w.accept(t, run(id))
		if w.find(t, "x").Settled == nil {
			w.end(t, "x", away())
		}
	}
	w.end(t, "x~2", away())
	resumed, unserved := run("x"), run("x")
	resumed.Resumed = true
	unserved.Refusal = fault.New(schemas.UnsupportedTaskType, "no")
	for _, r := range []accept.Request{resumed, unserved} {
		out := w.accept(t, r)
		require.Equal(t, "x~2", out.ID, "the newest")
		require.True(t, out.Receipt.Duplicate)
	}
	other := run("x")
	other.Tenant = "u"
	out := w.accept(t, other)
	require.Equal(t, schemas.Ref{Tenant: "u", Kind: schemas.KindRun, ID: "x"}, out.Ref, "tenants stay apart")

	changed := run("x")
	changed.Payload = json.RawMessage(`{"task_type":"T","mode":"LIVE"}`)
	require.Equal(t, schemas.Conflict, w.refusal(t, changed))

	w.set(func() { w.reads = fault.ErrUnavailable })
	require.Equal(t, schemas.Unavailable, w.refusal(t, run("x")))
	w.set(func() { w.reads = nil })
	_, err := w.ledger.Find(t.Context(), "t", "x~3")
	require.ErrorIs(t, err, fault.ErrNotFound)
}

// TestAnIDThatAnotherRequestHad before its history was dropped is passed over.
func TestAnIDThatAnotherRequestHad(t *testing.T) {
	t.Parallel()
	w := setup(t)
	old := schemas.Action{ID: "x~2", Tenant: "t", Kind: schemas.KindRun, Fingerprint: "other", AcceptedAt: w.clock()}
	_, _, err := w.ledger.Claim(t.Context(), old)
	require.NoError(t, err)
	w.accept(t, run("x"))
	w.end(t, "x", away())
	out := w.accept(t, run("x"))
	require.Equal(t, "x~3", out.ID)
	require.Equal(t, "x", w.find(t, "x~3").Action.Supersedes)
}

func TestAChainEnds(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := strings.Repeat("x", 128)
	for n := 1; n <= schemas.MaxGeneration; n++ {
		out := w.accept(t, run(id))
		_, generation := schemas.Generation(out.ID)
		require.Equal(t, n, generation)
		w.end(t, out.ID, away())
	}
	_, err := w.Accept(t.Context(), run(id))
	require.Equal(t, schemas.Conflict, code(t, err))
	require.ErrorContains(t, err, "use a new request_id")
}
