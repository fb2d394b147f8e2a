package call_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/table"
	"weir/processors/call"
	"weir/schemas"
)

// long is a limit that no deadline of these tests reaches.
const long = 24 * time.Hour

// TestAbort: with it, an end that a stop or the deadline made is known, and no
// other end is taken for one; and so it is for whoever reads it off the log.
func TestAbort(t *testing.T) {
	t.Parallel()
	open := end{endless: true}
	begun := end{endless: true, status: 200}
	canceled := func(r call.Result) bool { return r.Canceled && r.Last.Result.Code == schemas.Canceled }
	expired := func(r call.Result) bool { return r.Expired && r.Last.Result.Code == schemas.UpstreamTimeout }
	failed := func(r call.Result) bool { return r.Failed }
	type testCase struct {
		method  string
		script  end
		blunt   bool          // without Abort
		stop    time.Duration // when it comes; zero: never
		timeout time.Duration // the task's; zero: long
		want    func(call.Result) bool
		took    time.Duration
	}
	table.Bubble(t, map[string]testCase{
		"stopped before any answer":    {script: open, stop: time.Second, want: canceled, took: time.Second},
		"stopped in the answer":        {script: begun, stop: time.Second, want: canceled, took: time.Second},
		"stopped, PUT":                 {method: "PUT", script: open, stop: time.Second, want: canceled, took: time.Second},
		"stopped, GET":                 {method: "GET", script: open, stop: time.Second, want: canceled, took: time.Second},
		"over time before any answer":  {script: open, want: expired, took: 2 * time.Minute},
		"over time in the answer":      {script: begun, want: expired, took: 2 * time.Minute},
		"its own time, and no answer":  {script: open, timeout: time.Minute, want: unknown, took: time.Minute},
		"its own time, in the answer":  {script: begun, timeout: time.Minute, want: failed, took: time.Minute},
		"a reset is no stop":           {script: reset, want: unknown},
		"a cut answer is no stop":      {script: cutOff, want: failed},
		"an answer":                    {script: end{status: 200}, want: answered},
		"without: a stop is waited by": {script: open, blunt: true, stop: time.Second, want: unknown, took: 2 * time.Minute},
		"without: over time":           {script: begun, blunt: true, want: failed, took: 2 * time.Minute},
	}, func(t *testing.T, tt testCase) {
		if tt.method == "" {
			tt.method = "POST"
		}
		b := newEnv(t, envConfig{method: tt.method, script: []end{tt.script}})
		b.task.Abort, b.task.Timeout = !tt.blunt, long
		if tt.timeout > 0 {
			b.task.Timeout = tt.timeout
		}
		if tt.stop > 0 {
			time.AfterFunc(tt.stop, b.stop.Pull)
		}
		start := time.Now()
		r := b.run()
		assert.True(t, tt.want(r), "result: %+v, last: %+v", r, r.Last)
		assert.Equal(t, tt.took, time.Since(start))
		assert.Equal(t, 1, b.target.sent)
		assert.Len(t, b.left, 1)
		checkLog(t, b)

		<-time.After(long) // whoever reads it from the log, and whenever
		harness.Append(t, b.ledger, b.task.State, schemas.Event{Type: schemas.EventProgress})
		st := harness.Load(b.t, b.ledger, b.task.State.Ref)
		b.task.State = st
		again, err := b.caller.Run(t.Context(), b.task)
		require.NoError(t, err)
		assert.True(t, tt.want(again), "from the log: %+v", again)
		assert.Equal(t, 1, b.target.sent)
	})
}

// TestTimeout: what bounds an attempt, and until when nobody else may take it up.
func TestTimeout(t *testing.T) {
	t.Parallel()
	const margin = 5 * time.Second
	type testCase struct {
		task, call, deadline, took time.Duration
	}
	table.Bubble(t, map[string]testCase{
		"the caller's":               {deadline: time.Hour, took: 30 * time.Second},
		"the task's, longer":         {task: 10 * time.Minute, deadline: time.Hour, took: 10 * time.Minute},
		"the task's, shorter":        {task: time.Second, deadline: time.Hour, took: time.Second},
		"the deadline alone":         {task: long, deadline: 3 * time.Hour, took: 3 * time.Hour},
		"the call's wish for less":   {task: time.Hour, call: time.Minute, deadline: 3 * time.Hour, took: time.Minute},
		"the call's wish for more":   {task: time.Minute, call: time.Hour, deadline: 3 * time.Hour, took: time.Minute},
		"the caller's, a wish for 9": {call: 9 * time.Second, deadline: time.Hour, took: 9 * time.Second},
	}, func(t *testing.T, tt testCase) {
		b := newEnv(t, envConfig{method: "POST", deadline: tt.deadline, script: []end{{endless: true}}})
		b.task.Timeout, b.task.Call.Timeout = tt.task, tt.call
		start := time.Now()
		r := b.run()
		assert.Equal(t, tt.took, time.Since(start))
		assert.Equal(t, tt.took, r.Last.Result.Duration)
		assert.Equal(t, schemas.UpstreamTimeout, r.Last.Result.Code)
		assert.True(t, r.Last.ExpiresAt.Equal(start.Add(tt.took+margin)), "%v", r.Last.ExpiresAt)
	})
}

// TestAgentScope: only a task with Agent goes by an agent's entry, and it by no other.
func TestAgentScope(t *testing.T) {
	t.Parallel()
	agent := policy.Entry{Name: schemas.AgentEntry("T"), URLPrefix: "http://up.example/agents/run/", Methods: []string{"POST"}, Agent: true}
	type testCase struct {
		agent bool
		key   string
		only  []string
		sent  int
	}
	table.Run(t, map[string]testCase{
		"an agent's":                {agent: true, key: "agent:T", sent: 1},
		"an agent's, for its token": {agent: true, key: "agent:T", only: []string{"agent:T"}, sent: 1},
		"an agent's, another token": {agent: true, key: "agent:T", only: []string{"up"}},
		"an agent's without a key":  {agent: true},
		"another's key":             {agent: true, key: "up"},
		"not an agent's":            {key: "agent:T"},
	}, func(t *testing.T, tt testCase) {
		b := newEnv(t, envConfig{method: "POST", script: status(200)})
		b.enforce(t, unkeyed(), agent)
		b.task.State.Action.Entries = tt.only
		b.task.Agent, b.task.Call.AllowlistKey, b.task.Call.URL = tt.agent, tt.key, "http://up.example/agents/run/sync"
		r := b.run()
		assert.Equal(t, tt.sent, b.target.sent)
		assert.Equal(t, tt.sent == 0, r.Denied, "%+v", r)
	})
}

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
		b := newEnv(t, envConfig{method: tt.method})
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

// stubborn is a log that answers with one error after the other; the last one stays.
type stubborn struct {
	answers  []error
	canceled bool // an event that it takes finds the request to stop before it
	events   []schemas.Event
}

func (s *stubborn) Append(ctx context.Context, st *ledger.State, ev schemas.Event) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.events = append(s.events, ev)
	err := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	if err == nil {
		st.CancelRequested = s.canceled
	}
	return err
}

// TestRelay: an event is written or known not to be, whatever the log does meanwhile.
func TestRelay(t *testing.T) {
	t.Parallel()
	away := fault.ErrUnavailable
	type testCase struct {
		answers  []error
		canceled bool
		ends     time.Duration // of the call; 0: it does not
		deadline bool
		want     schemas.Code // empty: it is written
		tries    int
	}
	table.Bubble(t, map[string]testCase{
		"at once":                       {answers: []error{nil}, tries: 1},
		"the log was away for a moment": {answers: []error{away, away, nil}, tries: 3},
		"the action must stop":          {answers: []error{nil}, canceled: true, want: schemas.Canceled, tries: 1},
		"the call is over":              {answers: []error{nil}, ends: -1, tries: 1},
		"stopped, and the log away":     {answers: []error{away}, ends: time.Second, want: schemas.Canceled, tries: 5},
		"its time, and the log away":    {answers: []error{away}, ends: time.Second, deadline: true, want: schemas.UpstreamTimeout, tries: 5},
		"the log stays away":            {answers: []error{away}, want: schemas.Interrupted, tries: 51},
		"somebody was first":            {answers: []error{fault.ErrFenced}, want: schemas.Interrupted, tries: 1},
		"it is too large":               {answers: []error{fault.ErrTooLarge}, want: schemas.UpstreamTooLarge, tries: 1},
	}, func(t *testing.T, tt testCase) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		switch {
		case tt.deadline:
			ctx, cancel = context.WithTimeout(ctx, tt.ends-time.Millisecond)
			defer cancel()
		case tt.ends > 0:
			time.AfterFunc(tt.ends-time.Millisecond, cancel)
		case tt.ends < 0:
			cancel()
		}
		log := &stubborn{answers: tt.answers, canceled: tt.canceled}
		err := call.Relay(ctx, log, &ledger.State{}, schemas.Event{Type: schemas.EventDelta})
		require.Len(t, log.events, tt.tries)
		for _, ev := range log.events {
			assert.Equal(t, log.events[0], ev, "a repeat is the same record")
			assert.False(t, ev.Time.IsZero())
		}
		if tt.want == "" {
			require.NoError(t, err)
			return
		}
		failed := harness.As[*fault.Call](t, err)
		assert.Equal(t, []any{tt.want, true}, []any{failed.Code, failed.Sent})
		assert.Equal(t, tt.canceled, errors.Is(err, call.ErrStopped))
	})
}
