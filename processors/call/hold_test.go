package call_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
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
func (b *desk) rested(t *testing.T) *call.Rest {
	t.Helper()
	_, err := b.caller.Run(t.Context(), b.task)
	rest := harness.As[*call.Rest](t, err)
	require.NoError(t, b.ledger.Append(t.Context(), b.task.State, schemas.Event{
		Type: schemas.EventWaiting, Waiting: &schemas.Waiting{For: rest.For, Until: rest.Until, Step: rest.Step, Rules: rest.Rules},
	}))
	st := harness.Load(b.t, b.ledger, b.task.State.Ref)
	b.task.State = st
	return rest
}

func (b *desk) elapsed() time.Duration { return time.Since(b.start) }

// TestDelay: rules hold each attempt back, and that time is not the attempt's.
func TestDelay(t *testing.T) {
	t.Parallel()
	second := rulebook.Delay("d", all, 1000)
	type testCase struct {
		deskConfig
		act  func(b *desk)
		want func(call.Result) bool
		sent int
		took time.Duration
	}
	table.Bubble(t, map[string]testCase{
		"a call": {
			deskConfig{method: "POST", script: status(200)},
			nil,
			func(r call.Result) bool { return r.Answered && r.Last.Decision.Traffic.DelayMS == 1000 }, 1, time.Second,
		},
		"each attempt": {
			deskConfig{method: "GET", script: status(503, 503, 200)},
			nil,
			func(r call.Result) bool { return r.Answered && len(r.Tries) == 3 }, 3, 3600 * time.Millisecond,
		},
		"not in the attempt's time": {
			deskConfig{method: "GET", plan: true, script: []end{{endless: true}}},
			func(b *desk) {
				b.task.Timeout = 300 * time.Millisecond
				b.task.Call.Timeout = 300 * time.Millisecond
			},
			func(r call.Result) bool { return r.Failed && len(r.Tries) == 3 }, 3, 4500 * time.Millisecond,
		},
		"a stop": {
			deskConfig{method: "POST", script: status(200)},
			func(b *desk) { time.AfterFunc(300*time.Millisecond, b.stop.Pull) },
			func(r call.Result) bool { return r.Canceled && len(r.Tries) == 0 }, 0, 300 * time.Millisecond,
		},
		"the deadline": {
			deskConfig{method: "POST", deadline: 400 * time.Millisecond, script: status(200)},
			nil,
			func(r call.Result) bool { return r.Expired && len(r.Tries) == 0 }, 0, 400 * time.Millisecond,
		},
		"the rule is gone": {
			deskConfig{method: "POST", script: status(200)},
			func(b *desk) { time.AfterFunc(300*time.Millisecond, func() { b.book.Put(b.t) }) },
			func(r call.Result) bool { return r.Answered && r.Last.Decision.Traffic.DelayMS == 0 }, 1, 300 * time.Millisecond,
		},
		"rules are off": {
			deskConfig{method: "POST", script: status(200)},
			func(b *desk) { time.AfterFunc(300*time.Millisecond, func() { b.book.Off(b.t, second) }) },
			answered, 1, 300 * time.Millisecond,
		},
		"another delay counts from where the first began": {
			deskConfig{method: "POST", script: status(200)},
			func(b *desk) {
				time.AfterFunc(300*time.Millisecond, func() { b.book.Put(b.t, rulebook.Delay("d", all, 2500)) })
				time.AfterFunc(700*time.Millisecond, func() { b.book.Put(b.t, rulebook.Delay("d", all, 1500)) })
			},
			func(r call.Result) bool { return r.Answered && r.Last.Decision.Traffic.DelayMS == 1500 }, 1, 1500 * time.Millisecond,
		},
		"a mock comes": {
			deskConfig{method: "POST", script: status(200)},
			func(b *desk) {
				time.AfterFunc(300*time.Millisecond, func() { b.book.Put(b.t, second, rulebook.Mock("m", all, 202, "{}")) })
			},
			func(r call.Result) bool { return r.Answered && r.Last.Result.Status == 202 }, 0, time.Second,
		},
		"policy revokes it": {
			deskConfig{method: "POST", script: status(200)},
			func(b *desk) { time.AfterFunc(300*time.Millisecond, func() { b.enforce(b.t) }) },
			func(r call.Result) bool { return r.Denied && r.Decision.Code == schemas.DenyKeyUnknown }, 0, time.Second,
		},
		"a denied call is not held back": {deskConfig{method: "TRACE", script: status(200)}, nil, denied, 0, 0},
	}, func(t *testing.T, tt testCase) {
		tt.hold = 3 * time.Second
		b := newDesk(t, tt.deskConfig)
		b.book.Put(b.t, second)
		if tt.act != nil {
			tt.act(b)
		}
		r := b.run()
		assert.True(t, tt.want(r), "result: %+v", r)
		assert.Equal(t, tt.sent, b.target.sent)
		assert.Equal(t, tt.took, b.elapsed())
		checkLog(t, b)
	})
}

// TestWhatRulesHoldBackRests from half a second on: the slots are everybody's. A retry
// of the call's own may wait there for longer.
func TestWhatRulesHoldBackRests(t *testing.T) {
	t.Parallel()
	type testCase struct {
		delays []int64
		rests  []string
	}
	table.Bubble(t, map[string]testCase{
		"half a second":   {delays: []int64{500}},
		"several, as one": {delays: []int64{250, 250}},
		"more":            {delays: []int64{501}, rests: []string{"d0"}},
		"more, together":  {delays: []int64{250, 251}, rests: []string{"d1", "d0"}},
		"much more":       {delays: []int64{2990}, rests: []string{"d0"}},
	}, func(t *testing.T, tt testCase) {
		b := newDesk(t, deskConfig{method: "GET", script: []end{{status: 503, wish: time.Second}, {status: 200}}})
		rules := []schemas.Rule{rulebook.SetHeader("h", all, "X-A", "1")}
		for i, ms := range tt.delays {
			rules = append(rules, rulebook.Delay(fmt.Sprintf("d%d", i), all, ms))
		}
		b.book.Put(b.t, rules...)
		if tt.rests == nil {
			r := b.run()
			assert.True(t, r.Answered)
			assert.Equal(t, 2*time.Second, b.elapsed())
			return
		}
		rest := b.rested(t)
		assert.Equal(t, tt.rests, rest.Rules)
		assert.Zero(t, b.elapsed())
		assert.Zero(t, b.target.opened)
		assert.Equal(t, tt.rests, b.task.State.Waiting.Rules)
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
		b := newDesk(t, deskConfig{method: "POST", script: status(200)})
		b.task.Step = 3
		b.book.Put(b.t, rulebook.Delay("d", all, minute))
		rest := b.rested(t)
		assert.Equal(t, schemas.WaitRule, rest.For)
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
			assert.Equal(t, b.start.Add(tt.again), b.rested(t).Until)
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

// TestDelaysOfOthers: what held another step back, or an earlier attempt, is no part
// of what holds this one.
func TestDelaysOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newDesk(t, deskConfig{method: "GET", script: status(503, 200)})
		b.book.Put(b.t, rulebook.Delay("d", all, minute/2))
		_ = b.rested(t)
		time.Sleep(30 * time.Second)
		rest := b.rested(t) // behind the first attempt
		assert.Equal(t, 1, b.target.sent)
		assert.Equal(t, b.start.Add(60*time.Second+200*time.Millisecond), rest.Until)
		b.task.Step = 1
		rest = b.rested(t)
		assert.Equal(t, b.start.Add(60*time.Second+200*time.Millisecond), rest.Until, "thirty seconds from now")
		assert.Equal(t, 1, rest.Step)
	})
}

// TestRestEndsAtTheDeadline.
func TestRestEndsAtTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newDesk(t, deskConfig{method: "POST", deadline: 20 * time.Second, script: status(200)})
		b.book.Put(b.t, rulebook.Delay("d", all, minute))
		rest := b.rested(t)
		assert.Equal(t, b.start.Add(20*time.Second), rest.Until)
		time.Sleep(20 * time.Second)
		r := b.run()
		assert.True(t, r.Expired)
		assert.Zero(t, b.target.opened)
	})
}

// TestDelayAndDrain: a worker that drains gives back what a rule holds back.
func TestDelayAndDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		draining := make(chan struct{})
		b := newDesk(t, deskConfig{method: "POST", draining: draining, script: status(200)})
		b.book.Put(b.t, rulebook.Delay("d", all, 400))
		time.AfterFunc(200*time.Millisecond, func() { close(draining) })
		_, err := b.caller.Run(t.Context(), b.task)
		_, later := errors.AsType[*fault.Later](err)
		assert.True(t, later, "%v", err)
		assert.Equal(t, 200*time.Millisecond, b.elapsed())
		assert.Zero(t, b.target.opened)
	})
	synctest.Test(t, func(t *testing.T) {
		b := newDesk(t, deskConfig{method: "POST", script: status(200)})
		b.book.Put(b.t, rulebook.Delay("d", all, 400))
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := b.caller.Run(ctx, b.task)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Zero(t, b.target.opened)
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
		b := newDesk(t, deskConfig{method: "POST", hold: 3 * time.Second, script: status(200)})
		d := rulebook.Delay("d", all, tt.ms)
		d.ExpiresAt = b.start.Add(tt.ends).UTC()
		rules := []schemas.Rule{d}
		if tt.other > 0 {
			rules = append(rules, rulebook.Delay("e", all, tt.other))
		}
		b.book.Put(b.t, rules...)
		if tt.rests > 0 {
			assert.Equal(t, b.start.Add(tt.rests), b.rested(t).Until)
			time.Sleep(tt.rests)
		}
		r := b.run()
		assert.True(t, r.Answered)
		assert.Equal(t, tt.took, b.elapsed())
		assert.Equal(t, 1, b.target.sent)
		checkLog(t, b)
	})
}
