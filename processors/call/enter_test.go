package call_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/destination"
	"weir/internal/policy"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// other is a call of somebody else's to the bench's target.
func (b *desk) other(why string) {
	b.t.Helper()
	turn, held, err := b.destinations.Enter(context.Background(), destination.Call{
		Ref: schemas.Ref{Tenant: b.task.State.Tenant, Kind: schemas.KindHTTP, ID: "other"}, Entry: "up", Destination: "http://up.example:80",
		Gives: time.Now().Add(time.Minute),
	})
	require.NoError(b.t, err)
	turn.Leave()
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
		deskConfig
		after time.Duration // when another call is let through again, at the latest
		until time.Duration // until when it is not; zero: it is at once
	}
	table.Bubble(t, map[string]testCase{
		"a wish":                            {deskConfig{method: "POST", script: []end{{status: 429, wish: 7 * time.Second}}}, 7 * time.Second, 6 * time.Second},
		"a wish of a server with no time":   {deskConfig{method: "POST", script: []end{{status: 503, wish: 7 * time.Second}}}, 7 * time.Second, 6 * time.Second},
		"too many, and no wish":             {deskConfig{method: "POST", script: status(429)}, 200 * time.Millisecond, 190 * time.Millisecond},
		"no time, and no wish":              {deskConfig{method: "POST", script: status(503)}, 0, 0},
		"a wish that outlasts the deadline": {deskConfig{method: "POST", script: []end{{status: 429, wish: time.Hour}}}, 200 * time.Millisecond, 190 * time.Millisecond},
		"a wish with a good answer":         {deskConfig{method: "POST", script: []end{{status: 200, wish: time.Minute}}}, 0, 0},
	}, func(t *testing.T, tt testCase) {
		b := newDesk(t, tt.deskConfig)
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

// TestAWishThatIsGranted holds others back for as long as the retry waits, and no longer.
func TestAWishThatIsGranted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newDesk(t, deskConfig{method: "GET", script: []end{{status: 503, wish: 10 * time.Second}, {status: 200}}})
		r := b.run()
		require.False(t, r.Again.IsZero())
		b.other(schemas.WaitDestination)
		time.Sleep(time.Until(r.Again))
		r = b.run()
		require.True(t, r.Answered)
		require.Equal(t, 10*time.Second, b.elapsed())
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
		b := newDesk(t, deskConfig{method: "POST", script: []end{tt.end}})
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
		assert.Equal(t, schemas.WaitDestination, rest.For)
		assert.Equal(t, sent, b.target.opened, "nothing is dialled meanwhile")
		time.Sleep(time.Until(rest.Until))
		b.target.script = status(200)
		r := b.run()
		require.True(t, r.Answered)
		b.other("")
	})
}

// TestACallWithoutMemory is no success, either: failures before and after it are in a row.
func TestACallWithoutMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		script := append(slices.Repeat([]end{reset}, 99), unread, reset)
		b := newDesk(t, deskConfig{method: "POST", script: script})
		for range script {
			b.other("")
			b.anew(t)
			b.run()
		}
		b.other(schemas.WaitDestination)
	})
}

// TestLimitsOfAnEntry: a call over them is not failed; it rests until its turn, which is
// on the log, whoever takes it up.
func TestLimitsOfAnEntry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newDesk(t, deskConfig{method: "POST", script: status(200), limits: policy.Limits{Rate: "6/m"}})
		for n := range 4 {
			b.anew(t)
			if n > 0 {
				rest := b.rested(t)
				assert.Equal(t, schemas.WaitLimit, rest.For)
				assert.Equal(t, time.Duration(n)*10*time.Second, rest.Until.Sub(b.start).Round(time.Millisecond))
				time.Sleep(time.Until(rest.Until))
			}
			r := b.run()
			require.True(t, r.Answered)
		}
	})
}

// TestASecondsWorth waits in the worker's slot where that is short.
func TestASecondsWorth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newDesk(t, deskConfig{method: "POST", script: status(200), limits: policy.Limits{Rate: "10/s"}})
		for range 14 {
			b.anew(t)
			r := b.run()
			require.True(t, r.Answered)
		}
		require.Equal(t, 400*time.Millisecond, b.elapsed())
	})
}

// TestNoSeat: a call of an entry that has no room rests, and gives its own seat back.
func TestNoSeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newDesk(t, deskConfig{method: "POST", script: status(200, 200), limits: policy.Limits{Concurrency: 1}})
		b.target.script[0].during = func() {
			_, held, err := b.destinations.Enter(t.Context(), destination.Call{
				Ref: schemas.Ref{Tenant: "other", Kind: schemas.KindHTTP, ID: "other"}, Entry: "up", Destination: "http://up.example:80", Limits: destination.Limits{Concurrency: 1},
			})
			require.NoError(t, err)
			require.Equal(t, schemas.WaitCapacity, held.For)
		}
		for range 2 {
			b.anew(t)
			r := b.run()
			require.True(t, r.Answered)
		}
	})
}

// TestPausedUntilItsDeadline: an action that an operator holds back expires like every
// other, and says once what it waits for.
func TestPausedUntilItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newDesk(t, deskConfig{method: "GET", script: status(200)})
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
