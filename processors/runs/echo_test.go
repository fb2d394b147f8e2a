package runs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/weirtest/table"
	"weir/processors/call"
	"weir/schemas"
)

func echo(inputs string) schemas.Run {
	return schemas.Run{RunOrder: schemas.RunOrder{TaskType: schemas.TaskEcho, Inputs: json.RawMessage(inputs)}}
}

func TestEcho(t *testing.T) {
	t.Parallel()
	type testCase struct {
		inputs  string
		outputs string
		events  int
	}
	table.Run(t, map[string]testCase{
		"nothing":       {``, `{}`, 1},
		"empty":         {`{}`, `{}`, 1},
		"as they came":  {`{"n":1.50,"big":12345678901234567890,"null":null}`, `{"n":1.50,"big":12345678901234567890,"null":null}`, 1},
		"steps":         {`{"steps":3}`, `{"steps":3}`, 3},
		"other letters": {`{"Steps":9,"STEPS":"x"}`, `{"Steps":9,"STEPS":"x"}`, 1},
		"null":          {`{"steps":null,"interval_ms":null}`, `{"steps":null,"interval_ms":null}`, 1},
		"the most":      {`{"steps":1000,"interval_ms":0}`, `{"steps":1000,"interval_ms":0}`, 1000},
	}, func(t *testing.T, tt testCase) {
		r := newRoom(t, options{})
		e := r.perform(r.claim("1", echo(tt.inputs), time.Minute), still{})
		require.NoError(t, e.err)
		assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		assert.Equal(t, tt.outputs, string(e.result.Outputs))
		events := r.events("1")
		require.Len(t, events, 1+tt.events)
		for i, ev := range events[1:] {
			want := fmt.Sprintf(`{"name":"progress","data":{"step":%d,"steps":%d,"percent":%d}}`, i+1, tt.events, 100*(i+1)/tt.events)
			require.Equal(t, want, string(ev.Data))
		}
		assert.Empty(t, r.evidence("1"))
	})
}

func TestEchoRefuses(t *testing.T) {
	t.Parallel()
	for _, inputs := range []string{`{"steps":0}`, `{"steps":1001}`, `{"steps":1.5}`, `{"steps":"1"}`, `{"interval_ms":-1}`, `{"interval_ms":60001}`, `[]`} {
		r := newRoom(t, options{})
		e := r.perform(r.claim("1", echo(inputs), time.Minute), still{})
		require.NoError(t, e.err)
		assert.Equal(t, schemas.OutcomeFailed, e.Outcome, inputs)
		assert.Equal(t, schemas.TaskFailed, e.Code, inputs)
		assert.Equal(t, "VALIDATION_ERROR", e.result.Error.Code, inputs)
	}
}

func TestEchoByTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const slow = `{"steps":10,"interval_ms":1000}`
		r := newRoom(t, options{})
		began := time.Now()
		e := r.perform(r.claim("all", echo(slow), time.Minute), still{})
		require.NoError(t, e.err)
		assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		assert.Equal(t, 10*time.Second, time.Since(began))

		began = time.Now()
		e = r.perform(r.claim("late", echo(slow), 3500*time.Millisecond), still{})
		require.NoError(t, e.err)
		assert.Equal(t, schemas.OutcomeExpired, e.Outcome)
		assert.Equal(t, 3500*time.Millisecond, time.Since(began))
		assert.Len(t, r.events("late"), 1+3)

		stop := newStopper(t)
		time.AfterFunc(2500*time.Millisecond, stop.stop)
		e = r.perform(r.claim("stopped", echo(slow), time.Minute), stop)
		require.NoError(t, e.err)
		assert.Equal(t, schemas.OutcomeCanceled, e.Outcome)
		assert.Len(t, r.events("stopped"), 1+2)

		// A worker that drains gives it back, and another goes on where it stood.
		time.AfterFunc(4500*time.Millisecond, func() { close(r.draining) })
		st := r.claim("moved", echo(slow), time.Minute)
		e = r.perform(st, still{})
		var later *fault.Later
		require.ErrorAs(t, e.err, &later)
		st, err := r.ledger.Load(t.Context(), st.Ref)
		require.NoError(t, err)
		require.Equal(t, 4, st.Progress)
		r.undrain()
		e = r.perform(st, still{})
		require.NoError(t, e.err)
		assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		assert.Len(t, r.events("moved"), 1+10)
	})
}

// TestASlowEcho waits on the log, not in its worker's slot, and keeps its time.
func TestASlowEcho(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, options{})
		// carry performs a run as the pipeline does, and says how it ended.
		carry := func(id string, deadline time.Duration) ended {
			st := r.claim(id, echo(`{"steps":3,"interval_ms":60000}`), deadline)
			time.Sleep(time.Second) // in the queue
			require.NoError(t, r.ledger.Append(t.Context(), st, schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "w1"}}))
			for {
				began := time.Now()
				e := r.perform(st, still{})
				require.LessOrEqual(t, time.Since(began), 3*time.Second)
				var rest *call.Rest
				if !errors.As(e.err, &rest) {
					require.NoError(t, e.err)
					return e
				}
				require.Equal(t, schemas.WaitDelay, rest.For)
				require.Greater(t, time.Until(rest.Until), time.Duration(0))
				require.LessOrEqual(t, time.Until(rest.Until), time.Minute, "no longer than to the next event")
				ev := schemas.Event{Type: schemas.EventWaiting, Waiting: &schemas.Waiting{For: rest.For, Until: rest.Until}}
				require.NoError(t, r.ledger.Append(t.Context(), st, ev))
				time.Sleep(time.Until(rest.Until))
				st, e.err = r.ledger.Load(t.Context(), st.Ref)
				require.NoError(t, e.err)
			}
		}
		began := time.Now()
		assert.Equal(t, schemas.OutcomeSucceeded, carry("all", time.Hour).Outcome)
		assert.Equal(t, 3*time.Minute+time.Second, time.Since(began))

		began = time.Now()
		assert.Equal(t, schemas.OutcomeExpired, carry("late", 90*time.Second).Outcome)
		assert.Equal(t, 90*time.Second, time.Since(began))

		stop := newStopper(t)
		stop.stop()
		e := r.perform(r.claim("stopped", echo(`{"interval_ms":60000}`), time.Hour), stop)
		require.NoError(t, e.err)
		assert.Equal(t, schemas.OutcomeCanceled, e.Outcome)
	})
}
