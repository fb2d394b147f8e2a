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

// TestTwoNodesAtOneMessage, both alive: the one that took the action over has it, and the
// one that finds that by the fence leaves it alone, safe as its call is.
func TestTwoNodesAtOneMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDormitory(t)
		n1, n2 := d.node(t, "n1", false), d.node(t, "n2", false)
		rec := d.take(t, "one", "GET")
		d.during = func() {
			d.mu.Lock()
			d.during = func() { time.Sleep(15 * time.Second) } // of n2's
			d.mu.Unlock()
			time.Sleep(10 * time.Second)
		}
		first := make(chan error, 1)
		go func() { first <- n1.Handle(t.Context(), rec, true) }()
		time.Sleep(5 * time.Second)
		require.NoError(t, n2.Handle(t.Context(), rec, false))
		harness.Later(t, <-first, harness.Patience)
		st := d.state(t, "one")
		assert.Equal(t, schemas.OutcomeSucceeded, st.Settled.Outcome)
		assert.Len(t, st.Attempts, 2)
		assert.Equal(t, 2, d.sent)
		require.NoError(t, n1.Handle(t.Context(), rec, false), "it has settled")
		assert.Equal(t, 2, d.sent)
	})
}

// wake is a wake-up of an action, as a node gets it whom the log's live feed does
// not serve.
func (d *dormitory) wake(t *testing.T, ref schemas.Ref) schemas.Record {
	t.Helper()
	require.NoError(t, d.ledger.Notify(t.Context(), ref))
	rec, err := d.log.Last(t.Context(), schemas.LogStream(0), layout.Subject(ref, schemas.SectionWake))
	require.NoError(t, err)
	return rec
}

// TestStaleWake: an action that a change of the rules has woken is under way on one
// node when the wake-up that was planned before comes to another. That one does not
// take the call for a dead worker's, safe as it is, however often it is delivered.
func TestStaleWake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDormitory(t)
		d.pipeline = d.node(t, "n1", false)
		n2 := d.node(t, "n2", false)
		ref := schemas.Ref{Tenant: "mine", Kind: schemas.KindHTTP, ID: "one"}
		d.book.Put(t, rulebook.Delay("d", anywhere, 60_000))
		require.NoError(t, d.pipeline.Handle(t.Context(), d.take(t, "one", "GET"), true))
		planned := d.alarm.at["one"]
		require.Equal(t, time.Minute, time.Until(planned))

		time.Sleep(50 * time.Second)
		d.during = func() { time.Sleep(20 * time.Second) }
		d.book.Off(t)
		time.Sleep(10 * time.Second)
		require.NotNil(t, d.state(t, "one").Open(), "n1 is at it")
		rec := d.wake(t, ref)
		for _, first := range []bool{true, false} { // it comes again where n1 has turned it away
			require.NoError(t, n2.Handle(t.Context(), rec, first))
			open := d.state(t, "one").Open()
			require.NotNil(t, open)
			assert.Equal(t, open.ExpiresAt, d.alarm.at["one"])
		}
		require.NoError(t, <-d.handled)
		st := d.state(t, "one")
		assert.Equal(t, 1, d.sent)
		assert.Len(t, st.Attempts, 1)
		assert.Equal(t, schemas.OutcomeSucceeded, st.Settled.Outcome)
		require.NoError(t, n2.Handle(t.Context(), d.wake(t, ref), true))
		assert.Equal(t, 1, d.sent)
	})
}

// TestDeadWorkersSafeCall is made again as soon as the message that it was made for
// comes again; another message says nothing of its worker, unless there can be none.
func TestDeadWorkersSafeCall(t *testing.T) {
	t.Parallel()
	type testCase struct {
		alone, wake, first bool
		recovers           bool
	}
	table.Bubble(t, map[string]testCase{
		"its message again":            {recovers: true},
		"a wake-up":                    {wake: true, first: true},
		"a wake-up again":              {wake: true},
		"a wake-up, and no other node": {wake: true, first: true, alone: true, recovers: true},
		"again, and no other node":     {alone: true, recovers: true},
	}, func(t *testing.T, tt testCase) {
		d := newDormitory(t)
		rec := d.take(t, "one", "GET")
		d.DieAt(0, true) // the attempt is written down
		require.Error(t, d.node(t, "n1", tt.alone).Handle(t.Context(), rec, true))
		d.Heal()
		require.NotNil(t, d.state(t, "one").Open())
		if tt.wake {
			rec = schemas.Record{Subject: layout.Subject(schemas.Ref{Tenant: "mine", Kind: schemas.KindHTTP, ID: "one"}, schemas.SectionWake), Seq: rec.Seq + 99}
		}
		require.NoError(t, d.node(t, "n2", tt.alone).Handle(t.Context(), rec, tt.first))
		st := d.state(t, "one")
		if !tt.recovers {
			assert.Equal(t, st.Open().ExpiresAt, d.alarm.at["one"])
			assert.Zero(t, d.sent)
			return
		}
		assert.Equal(t, schemas.OutcomeSucceeded, st.Settled.Outcome)
		assert.Less(t, time.Since(st.Action.AcceptedAt), time.Second)
	})
}
