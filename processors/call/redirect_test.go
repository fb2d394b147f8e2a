package call_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/internal/limits/destination"
	"weir/internal/policy"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/processors/call"
	"weir/schemas"
)

// somebody takes a turn at the bench's target, whatever it is for.
func (b *env) somebody(l destination.Limits) *destination.Permit {
	b.t.Helper()
	turn, held, err := b.destinations.Acquire(context.Background(), destination.Call{
		Ref: schemas.Ref{Tenant: b.task.State.Tenant, Kind: schemas.KindHTTP, ID: "other"}, Entry: "up", Destination: "http://up.example:80",
		Limits: l, Gives: time.Now().Add(time.Minute), Booked: time.Now(), // whenever it comes
	})
	require.NoError(b.t, err)
	require.Nil(b.t, held)
	return turn
}

// pause holds the bench's entry back until the returned func is called.
func (b *env) pause() (resume func()) {
	b.t.Helper()
	order := schemas.Operation{Do: schemas.OperationPause, Target: schemas.Target{Entry: "up"}}
	_, err := b.destinations.Order(context.Background(), order)
	require.NoError(b.t, err)
	return func() {
		_, err := b.destinations.Lift(context.Background(), order.Do, order.Target)
		require.NoError(b.t, err)
	}
}

// arrived runs the task to its end: the redirect was followed once, as part of the attempt
// that led to it.
func (b *env) arrived() {
	b.t.Helper()
	r := b.run()
	require.True(b.t, r.Answered, "%+v", r)
	b.asked("/x", "/y")
	require.Len(b.t, r.Tries, 2)
	for i, try := range r.Tries {
		assert.Equal(b.t, 1, try.Number)
		assert.Equal(b.t, i, try.Hop)
	}
	assert.Len(b.t, b.left, 2, "one record an attempt")
	checkLog(b.t, b)
}

// TestHeldRedirectRests: a redirect that is held back gives the slot back, and goes on by
// itself: what led there is not asked again, whatever held it back and on whichever worker.
func TestHeldRedirectRests(t *testing.T) {
	t.Parallel()
	type testCase struct {
		limits policy.Limits
		rules  []schemas.Rule
		// during runs while the first request is out
		during func(b *env)
		rests  func(b *env)
		// at is when the redirect is followed, and no later than half as late again; zero: any time
		at time.Duration
	}
	table.Bubble(t, map[string]testCase{
		"the entry's rate": {
			limits: policy.Limits{Rate: "60/m"},
			rests: func(b *env) {
				rest := b.rested(b.t)
				assert.Equal(b.t, schemas.WaitLimit, rest.Reason)
				assert.Equal(b.t, time.Second, rest.Until.Sub(b.start).Round(time.Millisecond))
				time.Sleep(time.Until(rest.Until))
			},
			at: time.Second,
		},
		"a pause": {
			during: func(b *env) { time.AfterFunc(time.Minute, b.pause()) },
			rests: func(b *env) {
				assert.Equal(b.t, schemas.WaitPaused, b.rested(b.t).Reason)
				time.Sleep(time.Minute)
				synctest.Wait()
			},
			at: time.Minute,
		},
		"a wish of the destination's": {
			during: func(b *env) {
				turn := b.somebody(destination.Limits{})
				turn.Asked(context.Background(), time.Now().Add(8*time.Second))
				turn.Release()
			},
			rests: func(b *env) {
				rest := b.rested(b.t)
				assert.Equal(b.t, schemas.WaitDestination, rest.Reason)
				time.Sleep(time.Until(rest.Until))
			},
			at: 8 * time.Second,
		},
		"a traffic rule": {
			rules: []schemas.Rule{rulebook.Delay("d", "http://up.example/y", minute)},
			rests: func(b *env) {
				rest := b.rested(b.t)
				assert.Equal(b.t, schemas.WaitRule, rest.Reason)
				assert.Equal(b.t, []string{"d"}, rest.Rules)
				time.Sleep(time.Until(rest.Until))
			},
			at: time.Minute,
		},
	}, func(t *testing.T, tt testCase) {
		b := newEnv(t, envConfig{method: "GET", redirects: 1, limits: tt.limits})
		b.book.Put(b.t, tt.rules...)
		b.target.script = []end{{status: 302, location: "/y"}, {status: 200}}
		if tt.during != nil {
			b.target.script[0].during = func() { tt.during(b) }
		}
		tt.rests(b)
		assert.Equal(t, 1, b.target.sent)
		b.arrived()
		if tt.at > 0 {
			assert.GreaterOrEqual(t, b.elapsed(), tt.at)
			assert.LessOrEqual(t, b.elapsed(), tt.at*3/2)
		}
	})
}

// TestRedirectsTakeTurns: each call of a chain waits for its own time and slot, and gives the slot
// back.
func TestRedirectsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newEnv(t, envConfig{method: "GET", redirects: 2, limits: policy.Limits{Rate: "4/s", Concurrency: 1}})
		b.target.script = []end{{status: 302, location: "/y"}, {status: 302, location: "z?a=b"}, {status: 200}}
		for n := range 3 {
			b.anew(t)
			b.target.opened = 0
			r := b.run()
			require.True(t, r.Answered)
			assert.Equal(t, "http://up.example/z?a=b", b.target.urls[3*n+2])
		}
		// Four of the nine at once, the others a quarter of a second apart.
		assert.Equal(t, 5*250*time.Millisecond, b.elapsed().Round(time.Millisecond))
	})
}

// TestRedirectAfterADeath: whoever takes over from a worker that died behind a redirect's
// answer follows it; of a program that did not write down where it led, the call begins anew.
func TestRedirectAfterADeath(t *testing.T) {
	t.Parallel()
	table.Run(t, map[string]bool{"it was written down": true, "it was not": false}, func(t *testing.T, written bool) {
		b := newEnv(t, envConfig{method: "GET", redirects: 1, script: []end{{status: 302, location: "/y"}, {status: 200}}})
		dead, record := errors.New("the worker is gone"), b.task.Record
		b.task.Record = func(context.Context, ledger.Attempt) error { return dead }
		_, err := b.caller.Run(t.Context(), b.task)
		require.ErrorIs(t, err, dead)
		b.task.Record = record
		b.task.State = harness.Load(b.t, b.ledger, b.task.State.Ref)
		require.Equal(t, "http://up.example/y", b.task.State.Attempts[0].Result.Location)
		if written {
			b.left = b.task.State.Attempts // the next worker leaves what this one did not
			b.arrived()
			return
		}
		b.task.State.Attempts[0].Result.Location = ""
		r := b.run()
		assert.True(t, r.Answered)
		b.asked("/x", "/x")
		assert.Equal(t, 2, r.Last.Number)
	})
}

// TestRestedRedirectIsDecidedAnew: what came into force while it rested counts.
func TestRestedRedirectIsDecidedAnew(t *testing.T) {
	t.Parallel()
	const prefix = "http://up.example/"
	type testCase struct {
		entry policy.Entry
		rules []schemas.Rule
		code  schemas.Code
	}
	table.Bubble(t, map[string]testCase{
		"the call does not pass any more": {entry: policy.Entry{Name: "other", URLPrefix: prefix}, code: schemas.DenyKeyUnknown},
		"nothing is followed any more":    {entry: policy.Entry{Name: "up", URLPrefix: prefix}, code: schemas.DenyRedirect},
		"a rule leads it out":             {entry: policy.Entry{Name: "up", URLPrefix: prefix, Redirects: 1}, rules: []schemas.Rule{rulebook.Redirect("r", prefix+"y", "http://evil.example/")}, code: schemas.DenyRule},
		"a rule answers it":               {entry: policy.Entry{Name: "up", URLPrefix: prefix, Redirects: 1}, rules: []schemas.Rule{rulebook.Mock("m", prefix+"y", 200, "{}")}},
	}, func(t *testing.T, tt testCase) {
		b := newEnv(t, envConfig{method: "GET", redirects: 1, script: []end{{status: 302, location: "/y"}, {status: 200}}})
		var resume func()
		b.target.script[0].during = func() { resume = b.pause() }
		assert.Equal(t, schemas.WaitPaused, b.rested(t).Reason)
		b.enforce(t, tt.entry)
		b.book.Put(t, tt.rules...)
		resume()
		r := b.run()
		assert.Equal(t, 1, b.target.sent)
		require.Len(t, r.Tries, 2)
		assert.Equal(t, tt.code, r.Last.Result.Code)
		assert.Equal(t, tt.code != "", r.Failed)
		assert.Equal(t, 1, r.Last.Hop)
		assert.Equal(t, 1, r.Last.Number)
		assert.Len(t, b.left, 2)
		checkLog(t, b)
	})
}

// TestRedirectToNowhere is refused, and none is followed beyond the entry's number.
func TestRedirectToNowhere(t *testing.T) {
	t.Parallel()
	type testCase struct {
		script []end
		sent   int
		want   func(call.Result) bool
	}
	table.Run(t, map[string]testCase{
		"no Location": {[]end{{status: 302}}, 1, func(r call.Result) bool { return r.Failed && r.Last.Result.Code == schemas.DenyRedirect }},
		"too many": {[]end{{status: 302, location: "/y"}, {status: 302, location: "/x"}}, 2, func(r call.Result) bool {
			return r.Answered && r.Last.Result.Status == 302 && r.Last.Result.Location == ""
		}},
		"another host": {[]end{{status: 302, location: "http://evil.example/"}}, 1, func(r call.Result) bool { return r.Failed && r.Last.Result.Code == schemas.DenyRedirect }},
	}, func(t *testing.T, tt testCase) {
		b := newEnv(t, envConfig{method: "GET", redirects: 1, script: tt.script})
		r := b.run()
		assert.True(t, tt.want(r), "%+v", r.Last.Result)
		assert.Equal(t, tt.sent, b.target.sent)
		checkLog(t, b)
	})
}
