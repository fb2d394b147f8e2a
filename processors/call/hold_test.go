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
	"weir/internal/weirtest/rulebook"
	"weir/processors/call"
	"weir/schemas"
)

const (
	all    = "http://up.example/*"
	minute = int64(60_000)
)

// rested runs a task that is to be put to rest, and does to the log what the
// pipeline does.
func (b *bench) rested(t *testing.T) *call.Rest {
	t.Helper()
	_, err := b.caller.Run(t.Context(), b.task)
	rest, ok := errors.AsType[*call.Rest](err)
	require.True(t, ok, "%v", err)
	require.NoError(t, b.ledger.Append(t.Context(), b.task.State, schemas.Event{
		Type: schemas.EventWaiting, Waiting: &schemas.Waiting{For: rest.For, Until: rest.Until, Step: rest.Step},
	}))
	st, err := b.ledger.Load(t.Context(), b.task.State.Ref)
	require.NoError(t, err)
	b.task.State = st
	return rest
}

func (b *bench) elapsed() time.Duration { return time.Since(b.start) }

// TestDelay: rules hold each attempt back, and that time is not the attempt's.
func TestDelay(t *testing.T) {
	t.Parallel()
	second := rulebook.Delay("d", all, 1000)
	for name, tt := range map[string]struct {
		benchConfig
		act  func(b *bench)
		want func(call.Result) bool
		sent int
		took time.Duration
	}{
		"a call": {
			benchConfig{method: "POST", script: status(200)},
			nil,
			func(r call.Result) bool { return r.Answered && r.Last.Decision.Traffic.DelayMS == 1000 }, 1, time.Second,
		},
		"each attempt": {
			benchConfig{method: "GET", script: status(503, 503, 200)},
			nil,
			func(r call.Result) bool { return r.Answered && len(r.Tries) == 3 }, 3, 3600 * time.Millisecond,
		},
		"not in the attempt's time": {
			benchConfig{method: "GET", plan: true, script: []end{{endless: true}}},
			func(b *bench) {
				b.task.Timeout = 300 * time.Millisecond
				b.task.Call.Timeout = 300 * time.Millisecond
			},
			func(r call.Result) bool { return r.Failed && len(r.Tries) == 3 }, 3, 4500 * time.Millisecond,
		},
		"a stop": {
			benchConfig{method: "POST", script: status(200)},
			func(b *bench) { time.AfterFunc(300*time.Millisecond, b.stop.pull) },
			func(r call.Result) bool { return r.Canceled && len(r.Tries) == 0 }, 0, 300 * time.Millisecond,
		},
		"the deadline": {
			benchConfig{method: "POST", deadline: 400 * time.Millisecond, script: status(200)},
			nil,
			func(r call.Result) bool { return r.Expired && len(r.Tries) == 0 }, 0, 400 * time.Millisecond,
		},
		"the rule is gone": {
			benchConfig{method: "POST", script: status(200)},
			func(b *bench) { time.AfterFunc(300*time.Millisecond, func() { b.book.Put(b.t) }) },
			func(r call.Result) bool { return r.Answered && r.Last.Decision.Traffic.DelayMS == 0 }, 1, 300 * time.Millisecond,
		},
		"rules are off": {
			benchConfig{method: "POST", script: status(200)},
			func(b *bench) { time.AfterFunc(300*time.Millisecond, func() { b.book.Off(b.t, second) }) },
			func(r call.Result) bool { return r.Answered }, 1, 300 * time.Millisecond,
		},
		"another delay counts from where the first began": {
			benchConfig{method: "POST", script: status(200)},
			func(b *bench) {
				time.AfterFunc(300*time.Millisecond, func() { b.book.Put(b.t, rulebook.Delay("d", all, 2500)) })
				time.AfterFunc(700*time.Millisecond, func() { b.book.Put(b.t, rulebook.Delay("d", all, 1500)) })
			},
			func(r call.Result) bool { return r.Answered && r.Last.Decision.Traffic.DelayMS == 1500 }, 1, 1500 * time.Millisecond,
		},
		"a mock comes": {
			benchConfig{method: "POST", script: status(200)},
			func(b *bench) {
				time.AfterFunc(300*time.Millisecond, func() { b.book.Put(b.t, second, rulebook.Mock("m", all, 202, "{}")) })
			},
			func(r call.Result) bool { return r.Answered && r.Last.Result.Status == 202 }, 0, time.Second,
		},
		"policy revokes it": {
			benchConfig{method: "POST", script: status(200)},
			func(b *bench) { time.AfterFunc(300*time.Millisecond, func() { b.enforce(b.t) }) },
			func(r call.Result) bool { return r.Denied && r.Decision.Code == schemas.DenyKeyUnknown }, 0, time.Second,
		},
		"a denied call is not held back": {
			benchConfig{method: "TRACE", script: status(200)},
			nil,
			func(r call.Result) bool { return r.Denied }, 0, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, tt.benchConfig)
				b.book.Put(b.t, second)
				if tt.act != nil {
					tt.act(b)
				}
				r, err := b.caller.Run(t.Context(), b.task)
				require.NoError(t, err)
				assert.True(t, tt.want(r), "result: %+v", r)
				assert.Equal(t, tt.sent, b.target.sent)
				assert.Equal(t, tt.took, b.elapsed())
				checkLog(t, b)
			})
		})
	}
}

// TestLongDelayRests: what is held back for long gives its slot back, and comes
// again for the rest of the time that the rules say then.
func TestLongDelayRests(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		woken time.Duration // after the start
		put   []schemas.Rule
		again time.Duration // after the start, where it rests once more
		took  time.Duration
	}{
		"in time":        {woken: time.Minute, put: []schemas.Rule{rulebook.Delay("d", all, minute)}, took: time.Minute},
		"late":           {woken: 70 * time.Second, put: []schemas.Rule{rulebook.Delay("d", all, minute)}, took: 70 * time.Second},
		"early":          {woken: 10 * time.Second, put: []schemas.Rule{rulebook.Delay("d", all, minute)}, again: time.Minute},
		"a little early": {woken: 58 * time.Second, put: []schemas.Rule{rulebook.Delay("d", all, minute)}, took: time.Minute},
		"by its end":     {woken: 10 * time.Second, took: 10 * time.Second},
		"by a shorter":   {woken: 10 * time.Second, put: []schemas.Rule{rulebook.Delay("d", all, 5000)}, took: 10 * time.Second},
		"by a longer":    {woken: 10 * time.Second, put: []schemas.Rule{rulebook.Delay("d", all, minute), rulebook.Delay("e", all, 30_000)}, again: 90 * time.Second},
		"past the end":   {woken: 10 * time.Second, put: []schemas.Rule{rulebook.Delay("d", all, minute), rulebook.Delay("e", all, minute), rulebook.Delay("f", all, minute)}, again: 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, benchConfig{method: "POST", script: status(200)})
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
				r, err := b.caller.Run(t.Context(), b.task)
				require.NoError(t, err)
				assert.True(t, r.Answered)
				assert.Equal(t, tt.took, b.elapsed())
				assert.Equal(t, 1, b.target.sent)
				checkLog(t, b)
			})
		})
	}
}

// TestDelaysOfOthers: what held another step back, or an earlier attempt, is no part
// of what holds this one.
func TestDelaysOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, benchConfig{method: "GET", script: status(503, 200)})
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
		b := newBench(t, benchConfig{method: "POST", deadline: 20 * time.Second, script: status(200)})
		b.book.Put(b.t, rulebook.Delay("d", all, minute))
		rest := b.rested(t)
		assert.Equal(t, b.start.Add(20*time.Second), rest.Until)
		time.Sleep(20 * time.Second)
		r, err := b.caller.Run(t.Context(), b.task)
		require.NoError(t, err)
		assert.True(t, r.Expired)
		assert.Zero(t, b.target.opened)
	})
}

// TestDelayAndDrain: a worker that drains gives back what a rule holds back.
func TestDelayAndDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		draining := make(chan struct{})
		b := newBench(t, benchConfig{method: "POST", draining: draining, script: status(200)})
		b.book.Put(b.t, rulebook.Delay("d", all, 2000))
		time.AfterFunc(time.Second, func() { close(draining) })
		_, err := b.caller.Run(t.Context(), b.task)
		_, later := errors.AsType[*fault.Later](err)
		assert.True(t, later, "%v", err)
		assert.Equal(t, time.Second, b.elapsed())
		assert.Zero(t, b.target.opened)
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, benchConfig{method: "POST", script: status(200)})
		b.book.Put(b.t, rulebook.Delay("d", all, 2000))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := b.caller.Run(ctx, b.task)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Zero(t, b.target.opened)
	})
}
