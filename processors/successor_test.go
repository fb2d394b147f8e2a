package processors_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/schemas"
)

// succeed claims a successor as ingress does that dies right after it, and its predecessor
// before it, if there is one. It returns the successor's accepted record.
func (h *house) succeed(t *testing.T, before bool) schemas.Record {
	t.Helper()
	l := ledger.New(h.log, layout, time.Now)
	payload, err := ledger.Encode(schemas.HTTPCall{Method: "GET", URL: "http://up.example/x"})
	require.NoError(t, err)
	claim := func(id, supersedes string) *ledger.State {
		st, _, err := l.Claim(t.Context(), schemas.Action{
			ID: id, Tenant: "default", Kind: schemas.KindHTTP, Fingerprint: "f", Supersedes: supersedes,
			AcceptedAt: time.Now().UTC(), Deadline: time.Now().Add(time.Minute).UTC(), Payload: payload,
		})
		require.NoError(t, err)
		return st
	}
	if before {
		st := claim("a", "")
		end := &schemas.Settled{Outcome: schemas.OutcomeFailed, Code: schemas.AgentUnavailable}
		require.NoError(t, l.Append(t.Context(), st, schemas.Event{Type: schemas.EventSettled, Settled: end}))
	}
	st := claim("a~2", "a")
	rec, err := h.log.Last(t.Context(), schemas.LogStream(0), layout.Subject(st.Ref, schemas.TailAccepted))
	require.NoError(t, err)
	return rec
}

// linked checks that two actions name each other, once, and have one end each.
func (h *house) linked(t *testing.T, what string) {
	t.Helper()
	for id, want := range map[string]map[schemas.EventType]int{
		"a":   {schemas.EventSettled: 1, schemas.EventSuperseded: 1},
		"a~2": {schemas.EventSettled: 1},
	} {
		st, err := ledger.New(h.log, layout, time.Now).Load(t.Context(), schemas.Ref{Tenant: "default", Kind: schemas.KindHTTP, ID: id})
		require.NoError(t, err, what)
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
			h := newHouse()
			rec := h.succeed(t, true)
			h.crashAt(n, kept)
			over = h.worker(t, "w1").Handle(t.Context(), rec, true) == nil
			h.heal()
			require.NoError(t, h.worker(t, "w2").Handle(t.Context(), rec, false))
			h.linked(t, "crash")
			require.Less(t, n, 20)
		}
	}
}

// TestACanceledSuccessorIsLinked, which ingress has ended before a worker took it.
func TestACanceledSuccessorIsLinked(t *testing.T) {
	t.Parallel()
	h := newHouse()
	rec := h.succeed(t, true)
	l := ledger.New(h.log, layout, time.Now)
	st, err := l.Find(t.Context(), "default", "a~2")
	require.NoError(t, err)
	require.NoError(t, l.Append(t.Context(), st, schemas.Event{Type: schemas.EventCancel}))
	require.NoError(t, l.Append(t.Context(), st, schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeCanceled}}))
	for range 2 {
		require.NoError(t, h.worker(t, "w1").Handle(t.Context(), rec, false))
	}
	h.linked(t, "canceled")
}

// TestASuccessorAlone: a predecessor that the log has dropped is not missed.
func TestASuccessorAlone(t *testing.T) {
	t.Parallel()
	h := newHouse()
	require.NoError(t, h.worker(t, "w1").Handle(t.Context(), h.succeed(t, false), true))
	st, err := ledger.New(h.log, layout, time.Now).Find(t.Context(), "default", "a~2")
	require.NoError(t, err)
	require.Equal(t, schemas.OutcomeSucceeded, st.Settled.Outcome)
}
