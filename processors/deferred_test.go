package processors_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// TestRulesWakeWhatTheyHeldBack: the actions whose rules have changed are looked at at once, and
// once.
func TestRulesWakeWhatTheyHeldBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDormitory(t)
		start := time.Now()
		d.book.Put(t, rulebook.Delay("d", anywhere, 60_000))
		for _, id := range []string{"one", "two"} {
			d.put(t, id)
		}
		st := d.state(t, "one")
		require.NotNil(t, st.Waiting)
		assert.Equal(t, schemas.WaitRule, st.Waiting.For)
		assert.Equal(t, start.Add(time.Minute).UTC(), st.Waiting.Until)
		assert.Equal(t, start.Add(time.Minute), d.alarm.at["one"])
		assert.Zero(t, d.sent)

		time.Sleep(5 * time.Second)
		d.book.Off(t)
		require.NoError(t, <-d.handled)
		require.NoError(t, <-d.handled)
		synctest.Wait()
		assert.Empty(t, d.handled)
		assert.Equal(t, 2, d.sent)
		assert.Equal(t, start.Add(5*time.Second), time.Now())
		for _, id := range []string{"one", "two"} {
			assert.Equal(t, schemas.OutcomeSucceeded, d.state(t, id).Settled.Outcome)
		}

		d.book.Off(t)
		synctest.Wait()
		assert.Empty(t, d.handled, "they are told once")
	})
}

// TestRulesThatChangeWhileItGoesToRest are not missed, whenever they come, and find
// the action free.
func TestRulesThatChangeWhileItGoesToRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDormitory(t)
		d.book.Put(t, rulebook.Delay("d", anywhere, 60_000))
		d.alarm.setting = func() { d.book.Off(t) }
		d.put(t, "one")
		require.NoError(t, <-d.handled, "it is not turned away as under way")
		assert.Equal(t, schemas.OutcomeSucceeded, d.state(t, "one").Settled.Outcome)
	})
}

// TestWokenByOthers: an action that another has woken is none to be woken.
func TestWokenByOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDormitory(t)
		d.book.Put(t, rulebook.Delay("d", anywhere, 60_000))
		d.put(t, "one")
		ref := schemas.Ref{Tenant: "mine", Kind: schemas.KindHTTP, ID: "one"}
		time.Sleep(time.Second)
		require.NoError(t, d.ledger.Notify(t.Context(), ref)) // too early: it rests again
		require.NoError(t, <-d.handled)
		assert.Equal(t, 1, d.waits(t), "for the same, until the same")
		time.Sleep(time.Minute)
		require.NoError(t, d.ledger.Notify(t.Context(), ref))
		require.NoError(t, <-d.handled)
		assert.Equal(t, 1, d.sent)
		d.book.Off(t)
		synctest.Wait()
		assert.Empty(t, d.handled)
	})
}

// TestPutOff: an action that is to begin later rests, says so once, and begins then; and one
// that is asked to stop meanwhile ends without having begun a call.
func TestPutOff(t *testing.T) {
	t.Parallel()
	table.Bubble(t, map[string]bool{"its time comes": false, "it is asked to stop": true}, func(t *testing.T, stop bool) {
		h := newEnv()
		rec := harness.Accepted(t, h.log, harness.Claim(t, h.ingressLedger(), schemas.Action{
			Kind: schemas.KindHTTP, Class: schemas.ClassSafe, NotBefore: time.Now().Add(30 * time.Second).UTC(),
		}, schemas.HTTPCall{Method: "GET", URL: "http://up.example/x"}).Ref)
		p := h.worker(t, "w")
		require.NoError(t, p.Handle(t.Context(), rec, true))
		st := h.state(t)
		if stop {
			harness.Append(t, h.ingressLedger(), st, schemas.Event{Type: schemas.EventCancel})
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
