package call_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
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
		b := newDesk(t, deskConfig{method: tt.method, script: []end{tt.script}})
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
		b := newDesk(t, deskConfig{method: "POST", script: []end{{endless: true}}})
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

// TestStopWhileDialling: nothing was sent, and nothing is.
func TestStopWhileDialling(t *testing.T) {
	t.Parallel()
	b := newDesk(t, deskConfig{method: "POST"})
	b.target.script = []end{{opening: b.stop.Pull, openErr: &fault.Call{Code: schemas.Canceled}}}
	b.task.Abort = true
	r := b.run()
	assert.True(t, r.Canceled, "%+v", r)
	assert.False(t, r.Last.Result.Sent)
	assert.Zero(t, b.target.sent)
	checkLog(t, b)
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
		b := newDesk(t, deskConfig{method: "POST", deadline: tt.deadline, script: []end{{endless: true}}})
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
		b := newDesk(t, deskConfig{method: "POST", script: status(500)})
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
		b := newDesk(t, deskConfig{method: "POST", script: status(200)})
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
	b := newDesk(t, deskConfig{method: "POST"})
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
