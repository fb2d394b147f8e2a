package call_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
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

// TestAbortAndADeadWorker: with nothing but the log's word for the stop, an end
// that was written down is what it says, and one that was not is unknown.
func TestAbortAndADeadWorker(t *testing.T) {
	t.Parallel()
	type testCase struct {
		written *schemas.Attempted
		want    func(call.Result) bool
		blunt   bool // without Abort
	}
	table.Run(t, map[string]testCase{
		"cut off":          {written: &schemas.Attempted{Number: 1, Code: schemas.Canceled, Sent: true, Status: 200}, want: canceled},
		"cut off, without": {written: &schemas.Attempted{Number: 1, Code: schemas.Canceled, Sent: true}, blunt: true, want: unknown},
		"reset":            {written: &schemas.Attempted{Number: 1, Code: schemas.UpstreamReset, Sent: true}, want: unknown},
		"truncated": {
			written: &schemas.Attempted{Number: 1, Code: schemas.UpstreamTruncated, Sent: true, Status: 200},
			want:    func(r call.Result) bool { return r.Failed },
		},
		"answered": {written: &schemas.Attempted{Number: 1, Status: 200, Sent: true, Answer: &schemas.Answer{}}, want: answered},
		"nothing":  {want: func(r call.Result) bool { return r.Unknown && r.Last.Result.Code == schemas.Interrupted }},
	}, func(t *testing.T, tt testCase) {
		b := newEnv(t, envConfig{method: "POST", script: []end{{endless: true}}})
		b.task.Abort = !tt.blunt
		st := b.task.State
		harness.Append(t, b.ledger, st, schemas.Event{Type: schemas.EventAttempt, Attempt: &schemas.Attempt{Number: 1, Class: schemas.ClassOnce}})
		harness.Append(t, b.ledger, st, schemas.Event{Type: schemas.EventCancel})
		if tt.written != nil {
			harness.Append(t, b.ledger, st, schemas.Event{Type: schemas.EventAttempted, Attempted: tt.written})
		}
		require.NoError(t, b.caller.Abandon(t.Context(), st))
		r := b.run()
		assert.True(t, tt.want(r), "%+v", r)
		assert.Zero(t, b.target.sent)
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

// TestVia: a task that brings its adapter is made with that one, its attempts
// written down like all others.
func TestVia(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newEnv(t, envConfig{method: "POST", script: status(500)})
		own := &target{script: []end{refused, {status: 200}}}
		b.task.Via = own
		r := b.run()
		assert.True(t, r.Answered && r.Last.Result.Status == 200, "%+v", r)
		assert.Equal(t, []int{2, 1, 0}, []int{own.opened, own.sent, b.target.opened})
		checkLog(t, b)
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

// TestAgentScopeIsKept: a reload while the agent is dialled decides within it, too.
func TestAgentScopeIsKept(t *testing.T) {
	t.Parallel()
	b := newEnv(t, envConfig{method: "POST"})
	agent := policy.Entry{Name: schemas.AgentEntry("T"), URLPrefix: "http://up.example/agents/run/", Methods: []string{"POST"}, Agent: true}
	other := agent
	other.Headers = map[string]string{"X-New": "1"}
	b.enforce(t, unkeyed(), agent)
	b.task.Agent, b.task.Call.AllowlistKey, b.task.Call.URL = true, "agent:T", "http://up.example/agents/run/sync"
	b.target.script = []end{{opening: func() { b.enforce(t, unkeyed(), other) }, status: 200}}
	r := b.run()
	assert.True(t, r.Answered, "%+v", r)

	b.task.Step = 1
	b.target.script = []end{{}, {opening: func() { b.enforce(t, unkeyed()) }, status: 200}}
	r = b.run()
	assert.True(t, r.Denied && r.Decision.Code == schemas.DenyKeyUnknown, "the agent is gone: %+v", r)
	assert.Equal(t, 1, b.target.sent)
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
		b := newEnv(t, envConfig{method: "POST", script: []end{{endless: true, during: cancel}}})
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

// TestProgressMeetsACancel: what an exchange writes while its request is out goes
// around a cancel that lands between, which is known from then on.
func TestProgressMeetsACancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newEnv(t, envConfig{method: "POST"})
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

// TestPause ends with what it waits for, and before.
func TestPause(t *testing.T) {
	t.Parallel()
	type testCase struct {
		stop, drain, dead bool
		deadline          time.Duration
		took              time.Duration
		want              error
	}
	table.Bubble(t, map[string]testCase{
		"its time":        {took: time.Minute},
		"a stop":          {stop: true, took: time.Second},
		"a drain":         {drain: true, took: time.Second, want: call.ErrDraining},
		"the worker ends": {dead: true, took: time.Second, want: context.Canceled},
		"the deadline":    {deadline: 10 * time.Second, took: 10 * time.Second},
		"behind it":       {deadline: -time.Second},
	}, func(t *testing.T, tt testCase) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stop, draining := harness.NewStop(t), make(chan struct{})
		time.AfterFunc(time.Second, func() {
			switch {
			case tt.stop:
				stop.Pull()
			case tt.drain:
				close(draining)
			case tt.dead:
				cancel()
			}
		})
		st := &ledger.State{}
		if tt.deadline != 0 {
			st.Action.Deadline = time.Now().Add(tt.deadline)
		}
		start := time.Now()
		err := call.Pause(ctx, st, time.Minute, stop, draining)
		require.ErrorIs(t, err, tt.want)
		assert.Equal(t, tt.took, time.Since(start))
		canceled, over := call.Over(st, stop, time.Now())
		assert.Equal(t, []bool{tt.stop, tt.stop || tt.deadline != 0}, []bool{canceled, over})
		time.Sleep(time.Second) // so that the timer is done
	})
}
