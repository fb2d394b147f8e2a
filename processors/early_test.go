package processors_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/schemas"
)

// putOff claims an action that begins later, and returns its accepted record.
func (h *house) putOff(t *testing.T, d time.Duration) (schemas.Record, *ledger.Ledger) {
	t.Helper()
	l := ledger.New(h.log, layout, time.Now)
	payload, err := ledger.Encode(schemas.HTTPCall{Method: "GET", URL: "http://up.example/x"})
	require.NoError(t, err)
	now := time.Now().UTC()
	st, _, err := l.Claim(t.Context(), schemas.Action{
		ID: "a", Tenant: "default", Kind: schemas.KindHTTP, Class: schemas.ClassSafe, Fingerprint: "f",
		AcceptedAt: now, NotBefore: now.Add(d), Deadline: now.Add(time.Minute), Payload: payload,
	})
	require.NoError(t, err)
	rec, err := h.log.Last(t.Context(), schemas.LogStream(0), layout.Subject(st.Ref, schemas.TailAccepted))
	require.NoError(t, err)
	return rec, l
}

// TestPutOff: an action that is to begin later rests, says so once, and begins then; and one
// that is asked to stop meanwhile ends without having begun a call.
func TestPutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		rec, l := h.putOff(t, 30*time.Second)
		p := h.worker(t, "w")
		require.NoError(t, p.Handle(t.Context(), rec, true))
		ref, _, err := schemas.ParseSubject(rec.Subject)
		require.NoError(t, err)
		st, err := l.Load(t.Context(), ref)
		require.NoError(t, err)
		require.Equal(t, "waiting", st.Status())
		require.Equal(t, schemas.WaitDelay, st.Waiting.For)
		require.True(t, st.Action.NotBefore.Equal(st.Waiting.Until))

		require.NoError(t, p.Handle(t.Context(), rec, false), "it comes too early once more")
		again, err := l.Load(t.Context(), ref)
		require.NoError(t, err)
		require.Equal(t, st.N, again.N, "what is known is not said again")

		time.Sleep(30 * time.Second)
		require.NoError(t, p.Handle(t.Context(), rec, false))
		st, err = l.Load(t.Context(), ref)
		require.NoError(t, err)
		require.Equal(t, schemas.OutcomeSucceeded, st.Settled.Outcome)
	})
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		rec, l := h.putOff(t, 30*time.Second)
		p := h.worker(t, "w")
		require.NoError(t, p.Handle(t.Context(), rec, true))
		ref, _, err := schemas.ParseSubject(rec.Subject)
		require.NoError(t, err)
		st, err := l.Load(t.Context(), ref)
		require.NoError(t, err)
		require.NoError(t, l.Append(t.Context(), st, schemas.Event{Type: schemas.EventCancel}))
		require.NoError(t, p.Handle(t.Context(), rec, false))
		st, err = l.Load(t.Context(), ref)
		require.NoError(t, err)
		require.Equal(t, schemas.OutcomeCanceled, st.Settled.Outcome)
		require.Empty(t, st.Attempts)
	})
}
