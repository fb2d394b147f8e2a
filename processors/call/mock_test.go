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
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/processors/call"
	"weir/schemas"
)

// TestMock: a call that a rule answers is judged as if the target had, and nothing
// of it is sent or written down before.
func TestMock(t *testing.T) {
	t.Parallel()
	type testCase struct {
		deskConfig
		status int
		want   func(call.Result) bool
		mocked int
		took   time.Duration
	}
	table.Bubble(t, map[string]testCase{
		"a GET":               {deskConfig{method: "GET"}, 200, answered, 1, 0},
		"a POST":              {deskConfig{method: "POST"}, 200, answered, 1, 0},
		"a GET's 503":         {deskConfig{method: "GET"}, 503, spent, 3, 600 * time.Millisecond},
		"a GET's 404":         {deskConfig{method: "GET"}, 404, answered, 1, 0},
		"a POST's 503":        {deskConfig{method: "POST"}, 503, answered, 1, 0},
		"a keyed POST's 503":  {deskConfig{method: "POST", key: "k", declared: true}, 503, spent, 3, 600 * time.Millisecond},
		"a plan's 503":        {deskConfig{method: "GET", plan: true}, 503, answered, 1, 0},
		"what policy refuses": {deskConfig{method: "TRACE"}, 200, func(r call.Result) bool { return r.Denied && r.Decision.Traffic.Mocked == "m" }, 0, 0},
	}, func(t *testing.T, tt testCase) {
		tt.barrier = func(context.Context) error { return errors.New("there is nothing to wait for") }
		b := newDesk(t, tt.deskConfig)
		etag := b.book.Put(b.t, rulebook.Mock("m", all, tt.status, `{"a":1}`))
		r := b.run()
		assert.True(t, tt.want(r), "result: %+v", r)
		assert.Equal(t, tt.mocked, b.target.mocked)
		assert.Zero(t, b.target.opened)
		assert.Zero(t, b.target.sent)
		assert.Equal(t, tt.took, b.elapsed())
		require.Len(t, r.Tries, tt.mocked)
		assert.Len(t, b.left, tt.mocked)
		for _, try := range r.Tries {
			assert.False(t, try.Result.Sent)
			assert.True(t, try.Mocked())
			assert.Equal(t, schemas.Traffic{RulesEtag: etag, Rules: []string{"m"}, Mocked: "m"}, *try.Decision.Traffic)
			assert.Equal(t, b.task.Call.Method, try.Method)
			assert.Equal(t, b.task.Call.URL, try.URL)
			assert.Zero(t, try.KeyExpiresAt, "no target has seen the key")
		}
		for _, ev := range b.task.State.Events {
			assert.NotEqual(t, schemas.EventAttempt, ev.Type, "written down before")
		}
		assert.Equal(t, tt.mocked, b.counted[schemas.RuleMock])
		assert.Zero(t, b.counted["attempts"])
		checkLog(t, b)
	})
}

// TestMockIsNeverInDoubt: whatever becomes of reading a rule's answer, nothing was
// sent, and whoever takes the action up begins anew.
func TestMockIsNeverInDoubt(t *testing.T) {
	t.Parallel()
	b := newDesk(t, deskConfig{method: "POST"})
	b.book.Put(b.t, rulebook.Mock("m", all, 200, ""))
	b.target.mocking = func() error { return &fault.Call{Code: schemas.UpstreamProtocol, Sent: true, Status: 200} }
	r := b.run()
	assert.True(t, r.Failed, "%+v", r)
	assert.Len(t, r.Tries, 1, "and it is repeated no more than a real one")
	assert.False(t, r.Last.Result.Sent)

	b = newDesk(t, deskConfig{method: "POST"})
	b.book.Put(b.t, rulebook.Mock("m", all, 200, ""))
	ctx, cut := context.WithCancel(t.Context())
	b.target.mocking = func() error { cut(); return nil }
	events := len(b.task.State.Events)
	_, err := b.caller.Run(ctx, b.task)
	require.ErrorIs(t, err, context.Canceled)
	assert.Len(t, b.task.State.Events, events, "the worker's time was up, and nothing is on the log")
	r = b.run()
	assert.True(t, r.Answered)
	checkLog(t, b)
}

// TestDoubtOutlivesAMock: an answer of a rule's that stands behind a call in doubt
// is no answer of the target's.
func TestDoubtOutlivesAMock(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]bool{"a rule's": false, "the target's": true} {
		b := newDesk(t, deskConfig{method: "POST", key: "k", declared: true})
		keyed := schemas.Attempt{Class: schemas.ClassKeyed, Number: 1, KeyExpiresAt: time.Now().Add(time.Hour)}
		for _, ev := range []schemas.Event{
			{Type: schemas.EventAttempted, Attempt: &keyed, Attempted: &schemas.Attempted{Code: schemas.UpstreamTimeout, Sent: true}},
			{Type: schemas.EventAttempted, Attempt: &keyed, Attempted: &schemas.Attempted{Status: 503, Sent: sent, RetryAt: time.Now()}},
		} {
			harness.Append(t, b.ledger, b.task.State, ev)
		}
		b.enforce(b.t)
		r := b.run()
		assert.Equal(t, !sent, r.Unknown, name)
		assert.Equal(t, sent, r.Denied, name)
	}
}

// TestKeyIsNotShownByAMock: a call that a rule answered does not start the time of
// its key.
func TestKeyIsNotShownByAMock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newDesk(t, deskConfig{method: "POST", key: "k", declared: true, script: status(200)})
		b.book.Put(b.t, rulebook.Mock("m", all, 503, ""))
		b.target.mocking = func() error { b.book.Put(b.t); return nil }
		r := b.run()
		assert.True(t, r.Answered, "%+v", r)
		assert.Equal(t, 1, b.target.mocked)
		assert.Equal(t, 1, b.target.sent)
		assert.Zero(t, r.Tries[0].KeyExpiresAt)
		assert.Equal(t, b.start.Add(time.Hour+200*time.Millisecond).UTC(), r.Tries[1].KeyExpiresAt)
	})
}
