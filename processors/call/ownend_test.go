package call_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/table"
	"weir/processors/call"
	"weir/schemas"
)

// TestTheWorkerEnds: a call that is cut off because its worker's time is up is on
// the log at once as one of which nobody knows, and nobody waits for it to expire.
func TestTheWorkerEnds(t *testing.T) {
	t.Parallel()
	const lost = schemas.Interrupted
	type testCase struct {
		method string
		script end
		code   schemas.Code // of the attempt
		want   func(call.Result) bool
		sent   int // with what the next worker sends
	}
	table.Bubble(t, map[string]testCase{
		"before any answer":   {"POST", end{endless: true}, lost, unknown, 1},
		"mid-word":            {"POST", end{endless: true, status: 200}, lost, unknown, 1},
		"reset by then":       {"POST", reset, lost, unknown, 1},
		"log away by then":    {"POST", end{sendErr: fault.ErrUnavailable}, lost, unknown, 1},
		"answered by then":    {"POST", end{status: 200}, "", answered, 1},
		"nothing had left":    {"POST", end{sendErr: &fault.Call{Code: schemas.Canceled}}, lost, answered, 2},
		"nothing could leave": {"POST", unsent, schemas.UpstreamReset, answered, 2},
		"not allowed by then": {"POST", end{sendErr: &fault.Call{Code: schemas.DenyHost}}, schemas.DenyHost, func(r call.Result) bool { return r.Failed }, 1},
		"it may be repeated":  {"PUT", end{endless: true}, lost, answered, 2},
	}, func(t *testing.T, tt testCase) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		b := newDesk(t, deskConfig{method: tt.method})
		tt.script.during = cancel
		b.target.script = []end{tt.script, {status: 200}}
		b.task.Abort, b.task.Timeout = true, long
		start := time.Now()
		_, err := b.caller.Run(ctx, b.task)
		require.ErrorIs(t, err, context.Canceled)
		assert.Zero(t, time.Since(start))
		assert.Len(t, b.left, 1)
		checkLog(t, b)

		st := harness.Load(b.t, b.ledger, b.task.State.Ref)
		require.Nil(t, st.Open(), "nobody has to wait until it expires")
		assert.Equal(t, tt.code, st.Attempts[0].Result.Code)
		b.task.State = st
		require.NoError(t, b.caller.Abandon(t.Context(), st))
		r := b.run()
		assert.True(t, tt.want(r), "%+v", r)
		assert.Equal(t, tt.sent, b.target.sent)
	})
}

// mute takes no result of an attempt.
type mute struct{ *ledger.Ledger }

func (m mute) Append(ctx context.Context, st *ledger.State, ev schemas.Event) error {
	if ev.Type != schemas.EventAttempted {
		return m.Ledger.Append(ctx, st, ev)
	}
	<-ctx.Done() // it does not answer
	return fault.ErrUnavailable
}

// TestTheWorkerEndsWithItsLog: without a log nothing is claimed, and the worker
// does not stay for it.
func TestTheWorkerEndsWithItsLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		b := newDesk(t, deskConfig{method: "POST", script: []end{{endless: true, during: cancel}}})
		b.task.Abort, b.task.Timeout = true, long
		caller := call.New(mute{b.ledger}, b.guard, b.target, call.Config{Barrier: func(context.Context) error { return nil }})
		start := time.Now()
		_, err := caller.Run(ctx, b.task)
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, time.Second, time.Since(start))
		assert.Empty(t, b.left)

		st := harness.Load(b.t, b.ledger, b.task.State.Ref)
		require.NotNil(t, st.Open())
		b.task.State = st
		require.NoError(t, b.caller.Abandon(t.Context(), st))
		r := b.run()
		assert.True(t, r.Unknown && r.Last.Result.Code == schemas.Interrupted, "%+v", r)
		assert.Equal(t, 1, b.target.sent, "and it is not made again")
	})
}

// TestInterrupted: an exchange that cannot write any more may say so at once, and
// then nobody has to wait until its attempt expires. Its effect is as unknown.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	b := newDesk(t, deskConfig{method: "POST", script: []end{{sendErr: &fault.Call{Code: schemas.Interrupted, Sent: true, Cause: fault.ErrFull}}}})
	b.task.Abort = true
	r := b.run()
	assert.True(t, r.Unknown && r.Last.Result.Code == schemas.Interrupted, "%+v", r)
	assert.Nil(t, b.task.State.Open())
	checkLog(t, b)
}

// TestRunUnderWayOutlivesTheDrain: a drain begins nothing, and cuts nothing off.
func TestRunUnderWayOutlivesTheDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		draining := make(chan struct{})
		b := newDesk(t, deskConfig{method: "POST", draining: draining})
		b.target.script = []end{{status: 200, during: func() {
			close(draining)
			<-time.After(time.Minute)
		}}}
		b.task.Abort, b.task.Timeout = true, long
		r := b.run()
		assert.True(t, r.Answered, "%+v", r)
		b.task.Step = 1
		_, err := b.caller.Run(t.Context(), b.task)
		require.ErrorAs(t, err, new(*fault.Later), "the next step is for the next worker")
		assert.Equal(t, 1, b.target.sent)
	})
}

// TestProgressMeetsACancel: what an exchange writes while its request is out goes
// around a cancel that lands between, which is known from then on.
func TestProgressMeetsACancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newDesk(t, deskConfig{method: "POST"})
		b.task.Abort = true
		say := func() {
			assert.NoError(t, b.ledger.Append(t.Context(), b.task.State, schemas.Event{Type: schemas.EventProgress, Data: []byte("{}")}))
		}
		b.target.script = []end{{endless: true, status: 200, during: func() {
			say()
			other, err := b.ledger.Load(t.Context(), b.task.State.Ref)
			assert.NoError(t, err)
			assert.NoError(t, b.ledger.Append(t.Context(), other, schemas.Event{Type: schemas.EventCancel}))
			assert.False(t, b.task.State.CancelRequested)
			say()
			assert.True(t, b.task.State.CancelRequested)
			say()
			b.stop.Pull() // the wake-up call comes later than the word on the log
		}}}
		r := b.run()
		assert.True(t, r.Canceled, "%+v", r)
		assert.Equal(t, 3, b.task.State.Progress)
		checkLog(t, b)
		st := harness.Load(b.t, b.ledger, b.task.State.Ref)
		assert.Equal(t, 3, st.Progress)
		var types []schemas.EventType
		for _, ev := range st.Events {
			types = append(types, ev.Type)
		}
		assert.Equal(t, []schemas.EventType{schemas.EventAccepted, schemas.EventAttempt, schemas.EventCancel, schemas.EventAttempted}, types)
	})
}
