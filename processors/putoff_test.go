package processors_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// TestPutOff: an action that is to begin later rests, says so once, and begins then; and one
// that is asked to stop meanwhile ends without having begun a call.
func TestPutOff(t *testing.T) {
	t.Parallel()
	table.Bubble(t, map[string]bool{"its time comes": false, "it is asked to stop": true}, func(t *testing.T, stop bool) {
		h := newHouse()
		rec := harness.Accepted(t, h.log, harness.Claim(t, h.door(), schemas.Action{
			Kind: schemas.KindHTTP, Class: schemas.ClassSafe, NotBefore: time.Now().Add(30 * time.Second).UTC(),
		}, schemas.HTTPCall{Method: "GET", URL: "http://up.example/x"}).Ref)
		p := h.worker(t, "w")
		require.NoError(t, p.Handle(t.Context(), rec, true))
		st := h.state(t)
		if stop {
			harness.Append(t, h.door(), st, schemas.Event{Type: schemas.EventCancel})
			require.NoError(t, p.Handle(t.Context(), rec, false))
			require.Equal(t, schemas.OutcomeCanceled, h.state(t).Settled.Outcome)
			require.Empty(t, h.state(t).Attempts)
			return
		}
		require.Equal(t, "waiting", st.Status())
		require.Equal(t, schemas.WaitDelay, st.Waiting.For)
		require.True(t, st.Action.NotBefore.Equal(st.Waiting.Until))
		require.NoError(t, p.Handle(t.Context(), rec, false), "it comes too early once more")
		require.Equal(t, st.N, h.state(t).N, "what is known is not said again")
		time.Sleep(30 * time.Second)
		require.NoError(t, p.Handle(t.Context(), rec, false))
		require.Equal(t, schemas.OutcomeSucceeded, h.state(t).Settled.Outcome)
	})
}
