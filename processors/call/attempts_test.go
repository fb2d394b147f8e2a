package call_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
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
	"weir/processors/guard"
	"weir/schemas"
)

// TestRun holds every class against every way an attempt can end.
func TestRun(t *testing.T) {
	t.Parallel()
	type testCase struct {
		envConfig
		want  func(call.Result) bool
		sent  int
		tries int
		took  time.Duration
	}
	table.Bubble(t, map[string]testCase{
		"a GET that is answered": {envConfig{method: "GET", script: status(200)}, answered, 1, 1, 0},
		"a GET is tried three times, 200 ms and 400 ms apart": {
			envConfig{method: "GET", script: status(500, 429, 200)},
			answered, 3, 3, 600 * time.Millisecond,
		},
		"a task of one attempt":                     {envConfig{method: "GET", attempts: 1, script: status(503)}, spent, 1, 1, 0},
		"a task of more attempts than the schedule": {envConfig{method: "GET", attempts: 5, script: status(503, 503, 503, 200)}, answered, 4, 4, 1400 * time.Millisecond},
		"the budget of a GET is spent":              {envConfig{method: "GET", script: status(503)}, spent, 3, 3, 600 * time.Millisecond},
		"a 404 is final":                            {envConfig{method: "GET", script: status(404)}, answered, 1, 1, 0},
		"a plan's 503 is an answer":                 {envConfig{method: "GET", plan: true, script: status(503)}, answered, 1, 1, 0},
		"a PUT is repeated after a reset": {
			envConfig{method: "PUT", script: []end{reset, {status: 200}}},
			answered, 2, 2, 200 * time.Millisecond,
		},
		"a DELETE that nobody answers":              {envConfig{method: "DELETE", script: []end{slow}}, gaveUp, 3, 3, 600 * time.Millisecond},
		"a POST that was sent is never repeated":    {envConfig{method: "POST", script: []end{reset}}, unknown, 1, 1, 0},
		"a POST's 500 is an outcome":                {envConfig{method: "POST", script: status(500)}, answered, 1, 1, 0},
		"a status line ends the doubt about a POST": {envConfig{method: "POST", script: []end{cutOff}}, failed, 1, 1, 0},
		"a POST that could not connect may be tried again": {
			envConfig{method: "POST", script: []end{refused, refused, {status: 201}}},
			answered, 1, 3, 600 * time.Millisecond,
		},
		"a POST that can never connect": {envConfig{method: "POST", script: []end{refused}}, gaveUp, 0, 3, 600 * time.Millisecond},
		"a POST of which no byte left may be tried again": {
			envConfig{method: "POST", script: []end{unsent, {status: 200}}},
			answered, 2, 2, 200 * time.Millisecond,
		},
		"a declared key's budget is spent, and nobody knows": {
			envConfig{method: "PATCH", key: "k", declared: true, script: []end{reset}},
			unknown, 3, 3, 600 * time.Millisecond,
		},
		"a keyed call stays in doubt, though what followed never left": {
			envConfig{method: "POST", key: "k", declared: true, script: []end{reset, refused}},
			unknown, 1, 3, 600 * time.Millisecond,
		},
		"an answer ends the doubt": {
			envConfig{method: "POST", key: "k", declared: true, script: []end{reset, {status: 503}, refused}},
			gaveUp, 2, 3, 600 * time.Millisecond,
		},
		"an exchange that could not write to the log": {
			envConfig{method: "POST", script: []end{{sendErr: &fault.Call{Code: schemas.Interrupted, Sent: true, Cause: fault.ErrFull}}}},
			unknown, 1, 1, 0,
		},
		"an answer that broke a limit would break it again": {envConfig{method: "GET", script: []end{huge}}, failed, 1, 1, 0},
		"the upstream's wish is granted": {
			envConfig{method: "GET", script: []end{{status: 503, wish: 2 * time.Second}, {status: 200}}},
			answered, 2, 2, 2 * time.Second,
		},
		"a wish beyond the deadline is not": {
			envConfig{method: "GET", script: []end{{status: 503, wish: time.Hour}, {status: 200}}},
			answered, 2, 2, 200 * time.Millisecond,
		},
		"no retry starts after the deadline": {
			envConfig{method: "GET", deadline: 300 * time.Millisecond, script: status(503)},
			spent, 2, 2, 200 * time.Millisecond,
		},
		"a long wish gives the slot back": {
			envConfig{method: "GET", script: []end{{status: 503, wish: 30 * time.Second}}},
			func(r call.Result) bool {
				return !answered(r) && !spent(r) && !r.Failed && !r.Last.Result.RetryAt.IsZero()
			}, 1, 1, 0,
		},
		"a method that no entry allows": {
			envConfig{method: "TRACE", script: status(200)},
			func(r call.Result) bool { return r.Denied && r.Decision.Code == schemas.DenyMethod }, 0, 0, 0,
		},
	}, func(t *testing.T, tt testCase) {
		b := newEnv(t, tt.envConfig)
		start := time.Now()
		r := b.run()
		assert.True(t, tt.want(r), "result: %+v", r)
		assert.Equal(t, tt.sent, b.target.sent, "requests that the target received")
		assert.Len(t, r.Tries, tt.tries)
		assert.Len(t, b.left, tt.tries, "every attempt leaves evidence")
		assert.Equal(t, tt.took, time.Since(start))
		checkLog(t, b)
	})
}

// checkLog reads the action back: the fold of the log is the state in hand, and
// every request that was sent was written down before.
func checkLog(t *testing.T, b *env) {
	t.Helper()
	st := harness.Load(b.t, b.ledger, b.task.State.Ref)
	assert.Equal(t, b.task.State.Seq, st.Seq)
	assert.Equal(t, b.task.State.N, st.N)
	assert.Len(t, st.Attempts, len(b.task.State.Attempts))
	declared := 0
	for _, e := range st.Events {
		if e.Type == schemas.EventAttempt {
			declared++
		}
	}
	assert.GreaterOrEqual(t, declared, b.target.sent)
}

func TestNothingIsSentBeforeTheAttemptIsDurable(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is gone")
	for method, sent := range map[string]int{"POST": 0, "PUT": 0, "GET": 1} {
		b := newEnv(t, envConfig{method: method, script: status(200), barrier: func(context.Context) error { return broken }})
		_, err := b.caller.Run(t.Context(), b.task)
		assert.Equal(t, sent, b.target.sent, method)
		if sent == 0 {
			require.ErrorIs(t, err, broken)
		}
	}
}

func TestFencedWorkerSendsNothing(t *testing.T) {
	t.Parallel()
	b := newEnv(t, envConfig{method: "GET", script: status(200)})
	other := harness.Load(b.t, b.ledger, b.task.State.Ref)
	harness.Append(t, b.ledger, other, schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "w2"}})
	_, err := b.caller.Run(t.Context(), b.task)
	require.ErrorIs(t, err, fault.ErrFenced)
	assert.Zero(t, b.target.sent)
}

func TestCancelCutsOffASafeCallOnly(t *testing.T) {
	t.Parallel()
	type testCase struct {
		end
		want func(call.Result) bool
	}
	table.BubbleNamed(t, map[string]testCase{"GET": {reset, canceled}, "PUT": {end{status: 200}, answered}}, func(t *testing.T, method string, tt testCase) {
		b := newEnv(t, envConfig{method: method})
		tt.during = b.stop.Pull
		b.target.script = []end{tt.end}
		r := b.run()
		assert.True(t, tt.want(r), "%+v", r)
		assert.Equal(t, 1, b.target.sent)
	})
}

// TestStopBeforeItIsSent: a call that is stopped before it begins, or while it is dialled, is not sent.
func TestStopBeforeItIsSent(t *testing.T) {
	t.Parallel()
	for opened, act := range []func(b *env){
		func(b *env) { b.stop.Pull() },
		func(b *env) {
			b.target.script = []end{{opening: b.stop.Pull, openErr: &fault.Call{Code: schemas.Canceled}}}
			b.task.Abort = true
		},
	} {
		b := newEnv(t, envConfig{method: "POST", script: status(200)})
		act(b)
		r := b.run()
		assert.True(t, r.Canceled, "%+v", r)
		assert.Equal(t, []int{opened, opened, 0}, []int{b.target.opened, len(r.Tries), b.target.sent})
		checkLog(t, b)
	}
}

// TestDrain: a worker that drains begins nothing, and gives the message back.
func TestDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		draining := make(chan struct{})
		b := newEnv(t, envConfig{method: "PUT", draining: draining, script: []end{{status: 503, during: func() { close(draining) }}}})
		_, err := b.caller.Run(t.Context(), b.task)
		require.ErrorAs(t, err, new(*fault.RetryAfter))
		assert.Equal(t, 1, b.target.sent, "the attempt under way is finished, and none follows")
		checkLog(t, b)
	})
}

// TestRestEndsWithACancel: an action that rests until a retry is due does not
// wait for it any more, and a call in doubt stays in doubt.
func TestRestEndsWithACancel(t *testing.T) {
	t.Parallel()
	type testCase struct {
		envConfig
		want func(call.Result) bool
	}
	table.Bubble(t, map[string]testCase{
		"answered": {envConfig{method: "GET", script: []end{{status: 503, wish: time.Minute}}}, canceled},
		"in doubt": {envConfig{method: "POST", key: "k", declared: true, script: []end{reset}}, unknown},
		"not sent": {envConfig{method: "POST", script: []end{refused}}, canceled},
		"harmless": {envConfig{method: "PUT", script: []end{reset}}, canceled},
	}, func(t *testing.T, tt testCase) {
		b := newEnv(t, tt.envConfig)
		start := time.Now()
		time.AfterFunc(50*time.Millisecond, b.stop.Pull)
		r := b.run()
		if !b.again.IsZero() {
			synctest.Wait()
			<-b.stop.Done()
			r = b.run()
		}
		assert.True(t, tt.want(r), "%+v", r)
		assert.Less(t, time.Since(start), time.Second)
	})
}

func TestNoCallWithoutAPass(t *testing.T) {
	t.Parallel()
	err := call.New(nil, nil, nil, call.Config{}).Do(t.Context(), &call.Task{}, guard.Pass{})
	require.ErrorIs(t, err, call.ErrNoPass)
}

// TestPlannedRetryIsAskedAboutAgain: what was planned under one policy is not
// done under another that does not allow it.
func TestPlannedRetryIsAskedAboutAgain(t *testing.T) {
	t.Parallel()
	type testCase struct {
		class    schemas.Class // of the attempt
		declared bool          // by the entry as it is now
		good     time.Duration // for how long the key still is
		other    bool          // it is another request now
		sent     int
	}
	table.Bubble(t, map[string]testCase{
		"nothing has changed":                 {schemas.ClassKeyed, true, time.Hour, false, 1},
		"the entry declares nothing any more": {schemas.ClassKeyed, false, time.Hour, false, 0},
		"the key ran out while it waited":     {schemas.ClassKeyed, true, 0, false, 0},
		"it is another request":               {schemas.ClassKeyed, true, time.Hour, true, 0},
		"it was never to be repeated":         {schemas.ClassOnce, true, time.Hour, false, 0},
	}, func(t *testing.T, tt testCase) {
		first := newEnv(t, envConfig{method: "POST", key: "k", declared: true, script: status(200)})
		first.run()
		digest := first.task.State.Attempts[0].Digest
		if tt.other {
			digest = ""
		}
		b := newEnv(t, envConfig{method: "POST", key: "k", declared: tt.declared, script: status(200)})
		now := time.Now()
		harness.Append(t, b.ledger, b.task.State,
			schemas.Event{Type: schemas.EventAttempt, Attempt: &schemas.Attempt{Number: 1, Class: tt.class, KeyExpiresAt: now.Add(tt.good), Digest: digest}},
			schemas.Event{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{Number: 1, Code: schemas.UpstreamReset, Sent: true, RetryAt: now}})
		r := b.run()
		assert.Equal(t, tt.sent, b.target.sent)
		assert.Equal(t, tt.sent == 0, r.Unknown)
	})
}

// TestTarget: where an agent or a model is, is not shown.
func TestTarget(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"http://10.0.0.1/v1/chat/completions": "/chat/completions", "http://a.example/agents/run/stream": "/agents/run/stream",
		"http://a.example/v1/models?after_id=a": "/models", "http://a.example/secret": "",
	} {
		task := call.Task{Agent: true, Call: schemas.HTTPCall{Method: "POST", URL: url, AllowlistKey: "agent:A"}}
		assert.Equal(t, "POST agent:A"+want, task.Target())
	}
}

// blobs are documents by name.
type blobs map[string]json.RawMessage

func (b blobs) Blob(_ context.Context, _ json.RawMessage, name string) (json.RawMessage, error) {
	doc, ok := b[name]
	if !ok {
		return nil, fault.ErrNotFound
	}
	return doc, nil
}

// TestMemoryOfAStoredAnswer is reserved until it is released, and not for an answer that cannot be read.
func TestMemoryOfAStoredAnswer(t *testing.T) {
	t.Parallel()
	held := 0
	answers := call.Answers{Blobs: blobs{"b": json.RawMessage(`{"status":201}`)}, Reserve: func(_ context.Context, tenant string, names ...string) (func(), error) {
		require.Equal(t, "acme", tenant)
		require.Len(t, names, 1)
		held++
		return func() { held-- }, nil
	}}
	try := func(name string) *ledger.Attempt {
		return &ledger.Attempt{Result: &schemas.Attempted{Answer: &schemas.Answer{Status: 200}, AnswerBlob: name}}
	}
	a, release, err := answers.Reserved(t.Context(), "acme", try("b"))
	require.NoError(t, err)
	require.Equal(t, 201, a.Status)
	require.Equal(t, 1, held)
	release()
	require.Zero(t, held)
	_, _, err = answers.Reserved(t.Context(), "acme", try("gone"))
	require.ErrorAs(t, err, new(*fault.Terminal))
	require.Zero(t, held)
	for _, none := range []*ledger.Attempt{try(""), {}, nil} {
		_, release, err = answers.Reserved(t.Context(), "acme", none)
		require.NoError(t, err)
		require.Zero(t, held)
		release()
	}
}

// TestUnloggedKeepsALargeAnswer: a call that belongs to no action has its answer, whatever its
// size.
func TestUnloggedKeepsALargeAnswer(t *testing.T) {
	t.Parallel()
	body := `"` + strings.Repeat("x", schemas.InlineLimit) + `"`
	b := newEnv(t, envConfig{method: "GET", script: []end{{status: 200, body: body}}})
	c := call.New(call.Unlogged{}, b.guard, b.target, call.Config{Worker: "w1", Barrier: harness.NoBarrier})
	r, err := c.Run(t.Context(), b.task)
	require.NoError(t, err)
	assert.Len(t, r.Last.Result.Answer.Body, len(body))
}
