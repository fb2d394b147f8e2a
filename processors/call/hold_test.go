package call_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/limits/destination"
	"weir/internal/policy"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/processors/call"
	"weir/schemas"
)

const (
	all    = "http://up.example/*"
	minute = int64(60_000)
)

// rested runs a task that is to be put to rest, and does to the log what the
// pipeline does.
func (b *env) rested(t *testing.T) *call.Deferral {
	t.Helper()
	_, err := b.caller.Run(t.Context(), b.task)
	rest := harness.As[*call.Deferral](t, err)
	require.NoError(t, b.ledger.Append(t.Context(), b.task.State, schemas.Event{
		Type: schemas.EventWaiting, Waiting: &schemas.Waiting{For: rest.Reason, Until: rest.Until, Step: rest.Step, Rules: rest.Rules},
	}))
	st := harness.Load(b.t, b.ledger, b.task.State.Ref)
	b.task.State = st
	return rest
}

func (b *env) elapsed() time.Duration { return time.Since(b.start) }

// TestDelay: rules hold each attempt back, and that time is not the attempt's.
func TestDelay(t *testing.T) {
	t.Parallel()
	const soon = 300 * time.Millisecond
	second, x := rulebook.Delay("d", all, 1000), []string{"/x"}
	by := func(ms int64) func(call.Result) bool {
		return func(r call.Result) bool { return r.Answered && r.Last.Decision.Traffic.DelayMS == ms }
	}
	later := func(f func(b *env)) func(b *env) {
		return func(b *env) { time.AfterFunc(soon, func() { f(b) }) }
	}
	impatient := envConfig{method: "GET", plan: true, script: []end{{endless: true}}}
	table.Bubble(t, map[string]story{
		"a call":       {want: by(1000), paths: x, took: time.Second},
		"each attempt": {envConfig: envConfig{method: "GET", script: status(503, 503, 200)}, want: tries(3, answered), paths: []string{"/x", "/x", "/x"}, took: 3600 * time.Millisecond},
		"not in the attempt's time": {
			envConfig: impatient, act: func(b *env) { b.task.Timeout, b.task.Call.Timeout = soon, soon },
			want: tries(3, func(r call.Result) bool { return r.Failed }), paths: []string{"/x", "/x", "/x"}, took: 4500 * time.Millisecond,
		},
		"a stop":           {act: later(func(b *env) { b.stop.Pull() }), want: tries(0, canceled), took: soon},
		"the deadline":     {envConfig: envConfig{method: "POST", deadline: soon}, want: tries(0, func(r call.Result) bool { return r.Expired }), took: soon},
		"the rule is gone": {act: puts(soon), want: by(0), paths: x, took: soon},
		"rules are off":    {act: later(func(b *env) { b.book.Off(b.t, second) }), want: answered, paths: x, took: soon},
		"another delay counts from where the first began": {act: func(b *env) {
			puts(soon, rulebook.Delay("d", all, 2500))(b)
			puts(2*soon, rulebook.Delay("d", all, 1500))(b)
		}, want: by(1500), paths: x, took: 1500 * time.Millisecond},
		"a mock comes":                   {act: puts(soon, second, rulebook.Mock("m", all, 202, "{}")), want: answers(202), took: time.Second},
		"policy revokes it":              {act: later(func(b *env) { b.enforce(b.t) }), want: refusedFor(schemas.DenyKeyUnknown), took: time.Second},
		"a denied call is not held back": {envConfig: envConfig{method: "TRACE"}, want: denied},
	}, func(t *testing.T, s story) {
		if s.method == "" {
			s.method = "POST"
		}
		s.hold, s.rules = 3*time.Second, []schemas.Rule{second}
		s.play(t)
	})
}

// TestLongDelayRests: what is held back for long gives its slot back, and comes
// again for the rest of the time that the rules say then.
func TestLongDelayRests(t *testing.T) {
	t.Parallel()
	type testCase struct {
		woken time.Duration // after the start
		put   []schemas.Rule
		again time.Duration // after the start, where it rests once more
		took  time.Duration
	}
	table.Bubble(t, map[string]testCase{
		"in time":        {woken: time.Minute, put: []schemas.Rule{rulebook.Delay("d", all, minute)}, took: time.Minute},
		"late":           {woken: 70 * time.Second, put: []schemas.Rule{rulebook.Delay("d", all, minute)}, took: 70 * time.Second},
		"early":          {woken: 10 * time.Second, put: []schemas.Rule{rulebook.Delay("d", all, minute)}, again: time.Minute},
		"a little early": {woken: 59_600 * time.Millisecond, put: []schemas.Rule{rulebook.Delay("d", all, minute)}, took: time.Minute},
		"by its end":     {woken: 10 * time.Second, took: 10 * time.Second},
		"by a shorter":   {woken: 10 * time.Second, put: []schemas.Rule{rulebook.Delay("d", all, 5000)}, took: 10 * time.Second},
		"by a longer":    {woken: 10 * time.Second, put: []schemas.Rule{rulebook.Delay("d", all, minute), rulebook.Delay("e", all, 30_000)}, again: 90 * time.Second},
		"past the end":   {woken: 10 * time.Second, put: []schemas.Rule{rulebook.Delay("d", all, minute), rulebook.Delay("e", all, minute), rulebook.Delay("f", all, minute)}, again: 2 * time.Minute},
	}, func(t *testing.T, tt testCase) {
		b := newEnv(t, envConfig{method: "POST", script: status(200)})
		b.task.Step = 3
		b.book.Put(b.t, rulebook.Delay("d", all, minute))
		rest := b.rested(t)
		assert.Equal(t, schemas.WaitRule, rest.Reason)
		assert.Equal(t, 3, rest.Step)
		assert.Equal(t, b.start.Add(time.Minute), rest.Until)
		select {
		case <-rest.Replaced:
			assert.Fail(t, "they are not")
		default:
		}
		b.book.Put(b.t, tt.put...)
		<-rest.Replaced
		time.Sleep(tt.woken - b.elapsed())
		if tt.again > 0 {
			assert.Equal(t, b.start.Add(tt.again), b.rested(t).Until.Local())
			assert.Zero(t, b.target.opened)
			return
		}
		r := b.run()
		assert.True(t, r.Answered)
		assert.Equal(t, tt.took, b.elapsed())
		assert.Equal(t, 1, b.target.sent)
		checkLog(t, b)
	})
}

// TestDelayEndsWithItsRule: what a rule holds back goes on when the rule expires, and
// waits no longer for the others than they say.
func TestDelayEndsWithItsRule(t *testing.T) {
	t.Parallel()
	type testCase struct {
		ms    int64
		ends  time.Duration
		other int64
		rests time.Duration
		took  time.Duration
	}
	table.Bubble(t, map[string]testCase{
		"in the slot":                 {ms: 2000, ends: time.Second, took: time.Second},
		"at rest":                     {ms: minute, ends: 5 * time.Second, rests: 5 * time.Second, took: 5 * time.Second},
		"and another goes on":         {ms: minute, ends: 5 * time.Second, other: 7000, rests: 5 * time.Second, took: 7 * time.Second},
		"and another has held it too": {ms: minute, ends: 5 * time.Second, other: 3000, rests: 5 * time.Second, took: 5 * time.Second},
		"too late":                    {ms: 2000, ends: time.Minute, took: 2 * time.Second},
	}, func(t *testing.T, tt testCase) {
		b := newEnv(t, envConfig{method: "POST", hold: 3 * time.Second, script: status(200)})
		d := rulebook.Delay("d", all, tt.ms)
		d.ExpiresAt = b.start.Add(tt.ends).UTC()
		rules := []schemas.Rule{d}
		if tt.other > 0 {
			rules = append(rules, rulebook.Delay("e", all, tt.other))
		}
		b.book.Put(b.t, rules...)
		if tt.rests > 0 {
			assert.Equal(t, b.start.Add(tt.rests), b.rested(t).Until.Local())
			time.Sleep(tt.rests)
		}
		r := b.run()
		assert.True(t, r.Answered)
		assert.Equal(t, tt.took, b.elapsed())
		assert.Equal(t, 1, b.target.sent)
		checkLog(t, b)
	})
}

// other is a call of somebody else's to the bench's target.
func (b *env) other(why string) {
	b.t.Helper()
	turn, held, err := b.destinations.Acquire(context.Background(), destination.Call{
		Ref: schemas.Ref{Tenant: b.task.State.Tenant, Kind: schemas.KindHTTP, ID: "other"}, Entry: "up", Destination: "http://up.example:80",
		Gives: time.Now().Add(time.Minute),
	})
	require.NoError(b.t, err)
	turn.Release()
	if why == "" {
		require.Nil(b.t, held)
		return
	}
	require.NotNil(b.t, held)
	require.Equal(b.t, why, held.For)
}

// TestWhatAnswersSay of their destination, to everybody.
func TestWhatAnswersSay(t *testing.T) {
	t.Parallel()
	type testCase struct {
		envConfig
		after time.Duration // when another call is let through again, at the latest
		until time.Duration // until when it is not; zero: it is at once
	}
	table.Bubble(t, map[string]testCase{
		"a wish":                          {envConfig{method: "POST", script: []end{{status: 429, wish: 7 * time.Second}}}, 7 * time.Second, 6 * time.Second},
		"a wish of a server with no time": {envConfig{method: "POST", script: []end{{status: 503, wish: 7 * time.Second}}}, 7 * time.Second, 6 * time.Second},
		"too many, and no wish":           {envConfig{method: "POST", script: status(429)}, 200 * time.Millisecond, 190 * time.Millisecond},
		"too many, by the entry's own base": {
			envConfig{method: "POST", script: status(429), contract: policy.Contract{Retry: &policy.Retry{Attempts: 2, Base: 3 * time.Second, Cap: time.Minute}}},
			3 * time.Second, 2900 * time.Millisecond,
		},
		"no time, and no wish":              {envConfig{method: "POST", script: status(503)}, 0, 0},
		"a wish that outlasts the deadline": {envConfig{method: "POST", script: []end{{status: 429, wish: time.Hour}}}, 200 * time.Millisecond, 190 * time.Millisecond},
		"a wish with a good answer":         {envConfig{method: "POST", script: []end{{status: 200, wish: time.Minute}}}, 0, 0},
	}, func(t *testing.T, tt testCase) {
		b := newEnv(t, tt.envConfig)
		b.run()
		require.Equal(t, 1, b.target.sent)
		if tt.until > 0 {
			time.Sleep(tt.until)
			b.other(schemas.WaitDestination)
			time.Sleep(tt.after - tt.until)
		}
		b.other("")
	})
}

// TestFailuresInARow have the destination left alone; the call that sees brings it back.
func TestFailuresInARow(t *testing.T) {
	t.Parallel()
	type testCase struct {
		end   end
		count bool
	}
	table.Bubble(t, map[string]testCase{
		"500": {end{status: 500}, true}, "refused": {refused, true}, "reset": {reset, true},
		"404": {end{status: 404}, false}, "too large": {huge, false}, "impatience": {slow, false}, "no memory": {unread, false},
	}, func(t *testing.T, tt testCase) {
		b := newEnv(t, envConfig{method: "POST", script: []end{tt.end}})
		for b.target.opened < 100 {
			b.anew(t)
			if _, err := b.caller.Run(t.Context(), b.task); err != nil { // between two attempts
				require.ErrorContains(t, err, "waiting for destination")
			}
		}
		if !tt.count {
			b.other("")
			return
		}
		b.anew(t)
		sent := b.target.opened
		rest := b.rested(t)
		assert.Equal(t, schemas.WaitDestination, rest.Reason)
		assert.Equal(t, sent, b.target.opened, "nothing is dialled meanwhile")
		time.Sleep(time.Until(rest.Until))
		b.target.script = status(200)
		r := b.run()
		require.True(t, r.Answered)
		b.other("")
	})
}

// TestPausedUntilItsDeadline: an action that an operator holds back expires like every
// other, and says once what it waits for.
func TestPausedUntilItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newEnv(t, envConfig{method: "GET", script: status(200)})
		_, err := b.destinations.Order(t.Context(), schemas.Operation{Do: schemas.OperationPause, Target: schemas.Target{Kind: schemas.KindHTTP}})
		require.NoError(t, err)
		require.False(t, b.rested(t).Quiet)
		for range 2 {
			rest := b.rested(t)
			require.True(t, rest.Quiet)
			require.False(t, rest.Until.After(b.task.State.Action.Deadline))
			time.Sleep(time.Until(rest.Until))
		}
		time.Sleep(time.Until(b.task.State.Action.Deadline))
		r := b.run()
		require.True(t, r.Expired)
		require.Zero(t, b.target.opened)
	})
}
