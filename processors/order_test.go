package processors_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// line claims actions of one ordering key, and returns their accepted records.
func (d *dormitory) line(t *testing.T, n int, edit func(i int, a *schemas.Action)) []schemas.Record {
	t.Helper()
	var all []schemas.Record
	for i := range n {
		a := schemas.Action{
			ID: fmt.Sprintf("a%d", i), Tenant: "t", Kind: schemas.KindHTTP, Class: schemas.ClassOnce, OrderingKey: "k",
			Deadline: time.Now().Add(10 * time.Minute).UTC(), Payload: fmt.Appendf(nil, `{"method":"POST","url":"http://up.example/%d"}`, i),
		}
		if edit != nil {
			edit(i, &a)
		}
		all = append(all, harness.Accepted(t, d.log, harness.Claim(t, d.ledger, a, nil).Ref))
	}
	return all
}

// TestActionsOfAKey begin one after the other: one that comes before its turn rests, without a
// time of its own, is looked at again within seconds, and is woken by the end of the one before.
func TestActionsOfAKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDormitory(t)
		recs := d.line(t, 3, nil)
		for _, i := range []int{2, 1} {
			require.NoError(t, d.pipeline.Handle(t.Context(), recs[i], true))
			id := fmt.Sprintf("a%d", i)
			st := d.state(t, "t", id)
			require.Equal(t, &schemas.Waiting{For: schemas.WaitOrder}, st.Waiting)
			require.False(t, st.Started)
			require.Equal(t, 5*time.Second, time.Until(d.alarm.at[id]))
			n := st.N
			require.NoError(t, d.pipeline.Handle(t.Context(), recs[i], false))
			require.Equal(t, n, d.state(t, "t", id).N, "what is known is not said again")
		}
		require.Zero(t, d.sent)
		require.NoError(t, d.pipeline.Handle(t.Context(), recs[0], true))
		for range 2 { // each end wakes the next one
			require.NoError(t, <-d.handled)
		}
		var ends []uint64
		for i := range 3 {
			st := d.state(t, "t", fmt.Sprintf("a%d", i))
			require.Equal(t, schemas.OutcomeSucceeded, st.Settled.Outcome)
			ends = append(ends, st.SettledSeq)
			if i > 0 {
				require.Greater(t, startOf(st), ends[i-1], "it begins behind the end of the one before")
			}
		}
		require.Equal(t, 3, d.sent)
		d.pipeline.RulesChanged("t")
	})
}

// startOf is where an action has begun.
func startOf(st *ledger.State) uint64 {
	for _, ev := range st.Events {
		if ev.Attempt != nil {
			return ev.Seq
		}
	}
	return 0
}

// TestTheEndComesWhileOneLiesDown: what is before it ends between its look and its rest; it is
// woken all the same, and at once.
func TestTheEndComesWhileOneLiesDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDormitory(t)
		recs := d.line(t, 2, nil)
		d.alarm.setting = func() {
			d.alarm.setting = nil
			require.NoError(t, d.pipeline.Handle(t.Context(), recs[0], true))
			require.Error(t, <-d.handled, "its wake-up finds it under way")
		}
		require.NoError(t, d.pipeline.Handle(t.Context(), recs[1], true))
		require.NoError(t, <-d.handled)
		require.Equal(t, schemas.OutcomeSucceeded, d.state(t, "t", "a1").Settled.Outcome)
	})
}

// TestOneThatWaitsItsTurnEnds by its deadline or because it is asked to, without having begun a
// call, and keeps nobody.
func TestOneThatWaitsItsTurnEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDormitory(t)
		recs := d.line(t, 4, func(i int, a *schemas.Action) {
			if i == 1 {
				a.Deadline = time.Now().Add(3 * time.Second).UTC()
			}
		})
		for _, rec := range recs[1:] {
			require.NoError(t, d.pipeline.Handle(t.Context(), rec, true))
		}
		require.Equal(t, 3*time.Second, time.Until(d.alarm.at["a1"]), "when its time is up")
		time.Sleep(3 * time.Second)
		require.NoError(t, d.pipeline.Handle(t.Context(), recs[1], false))
		require.Equal(t, schemas.OutcomeExpired, d.state(t, "t", "a1").Settled.Outcome)
		st := d.state(t, "t", "a2")
		harness.Append(t, d.ledger, st, schemas.Event{Type: schemas.EventCancel})
		require.NoError(t, d.pipeline.Handle(t.Context(), recs[2], false))
		require.Equal(t, schemas.OutcomeCanceled, d.state(t, "t", "a2").Settled.Outcome)
		require.Zero(t, d.sent)
		require.Nil(t, d.state(t, "t", "a3").Settled)
		require.NoError(t, d.pipeline.Handle(t.Context(), recs[0], true))
		require.NoError(t, <-d.handled)
		require.Equal(t, schemas.OutcomeSucceeded, d.state(t, "t", "a3").Settled.Outcome)
		require.Equal(t, 2, d.sent)
	})
}

// TestOneThatIsPutOffHoldsItsPlace.
func TestOneThatIsPutOffHoldsItsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDormitory(t)
		recs := d.line(t, 2, func(i int, a *schemas.Action) {
			if i == 0 {
				a.NotBefore = time.Now().Add(time.Minute).UTC()
			}
		})
		require.NoError(t, d.pipeline.Handle(t.Context(), recs[1], true))
		require.NoError(t, d.pipeline.Handle(t.Context(), recs[0], true))
		require.Equal(t, schemas.WaitDelay, d.state(t, "t", "a0").Waiting.For)
		require.Equal(t, schemas.WaitOrder, d.state(t, "t", "a1").Waiting.For)
		time.Sleep(time.Minute)
		require.NoError(t, d.pipeline.Handle(t.Context(), recs[0], false))
		require.NoError(t, <-d.handled)
		require.Equal(t, schemas.OutcomeSucceeded, d.state(t, "t", "a1").Settled.Outcome)
	})
}

// TestAWorkerOfALineDies at each append that it makes, stored or not, and another takes over:
// the second action of the key is woken, and begins behind the end of the first.
func TestAWorkerOfALineDies(t *testing.T) {
	t.Parallel()
	for _, kept := range []bool{false, true} {
		for n := 0; ; n++ {
			over := false
			synctest.Test(t, func(t *testing.T) {
				d := newDormitory(t)
				recs := d.line(t, 2, nil)
				require.NoError(t, d.pipeline.Handle(t.Context(), recs[1], true))
				d.DieAt(n, kept)
				err := d.pipeline.Handle(t.Context(), recs[0], true)
				over = !d.Dead()
				d.Heal()
				d.pipeline = d.node(t, "w2", true)
				if err != nil { // else the one that it woke was under way
					require.NoError(t, d.pipeline.Handle(t.Context(), recs[0], false))
				}
				synctest.Wait()
				for len(d.handled) > 0 {
					<-d.handled //nolint:errcheck // the log tells what came of it
				}
				time.Sleep(5 * time.Second) // a look at the latest
				if d.state(t, "t", "a1").Settled == nil {
					require.NoError(t, d.pipeline.Handle(t.Context(), recs[1], false))
				}
				first, second := d.state(t, "t", "a0"), d.state(t, "t", "a1")
				require.NotNil(t, first.Settled)
				require.NotNil(t, second.Settled, "crash at %d, kept %v", n, kept)
				require.Greater(t, startOf(second), first.SettledSeq)
			})
			if over {
				break
			}
		}
	}
}

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
