package call_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/policy"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// enforce exchanges the policy of a bench.
func (b *env) enforce(t *testing.T, entries ...policy.Entry) {
	t.Helper()
	b.rules.Enforce(t, entries...)
}

// unkeyed is the bench's entry without its promise about repeated keys.
func unkeyed() policy.Entry {
	return policy.Entry{Name: "up", URLPrefix: "http://up.example/", Methods: []string{"GET", "POST"}}
}

// TestNoBlindRepeatAfterAReload: a call that was sent under a promise which the
// policy no longer makes is not sent again, wherever the reload falls and
// whatever came of the attempts between.
func TestNoBlindRepeatAfterAReload(t *testing.T) {
	t.Parallel()
	table.Bubble(t, map[string]func(b *env, reload func()){
		"after an attempt that never left": func(b *env, reload func()) {
			b.target.script = []end{reset, {openErr: refused.openErr, opening: reload}, {status: 200}}
		},
		"while the second one dials": func(b *env, reload func()) {
			b.target.script = []end{reset, {status: 200, opening: reload}}
		},
		"after the second one was written": func(b *env, reload func()) {
			written := 0
			b.barrier = func() {
				if written++; written == 2 {
					reload()
				}
			}
			b.target.script = []end{reset, {status: 200}}
		},
	}, func(t *testing.T, place func(b *env, reload func())) {
		var b *env
		b = newEnv(t, envConfig{method: "POST", key: "k", declared: true, barrier: func(context.Context) error {
			if b.barrier != nil {
				b.barrier()
			}
			return nil
		}})
		place(b, func() { b.enforce(t, unkeyed()) })
		r := b.run()
		assert.True(t, r.Unknown, "result: %+v", r)
		assert.Equal(t, 1, b.target.sent)
		checkLog(t, b)
	})
}

// TestTheLastWordIsRecorded: where the policy changed after an attempt was
// written down, its result says what the new one said.
func TestTheLastWordIsRecorded(t *testing.T) {
	t.Parallel()
	type testCase struct {
		entries []policy.Entry
		renew   error
		sent    int
		code    schemas.Code
		allowed bool
	}
	table.Run(t, map[string]testCase{
		"allowed":            {entries: []policy.Entry{unkeyed()}, sent: 1, allowed: true},
		"denied":             {code: schemas.DenyKeyUnknown},
		"an address refused": {entries: []policy.Entry{unkeyed()}, renew: &fault.Call{Code: schemas.DenyAddress}, code: schemas.DenyAddress, allowed: true},
	}, func(t *testing.T, tt testCase) {
		var b *env
		b = newEnv(t, envConfig{method: "POST", script: []end{{status: 200, renewErr: tt.renew}}, barrier: func(context.Context) error {
			b.enforce(t, tt.entries...)
			return nil
		}})
		before := b.rules.InForce()
		r := b.run()
		assert.Equal(t, tt.sent, b.target.sent)
		require.Len(t, r.Tries, 1)
		res := r.Tries[0].Result
		assert.Equal(t, tt.code, res.Code)
		assert.Equal(t, tt.sent == 1, res.Sent)
		require.NotNil(t, res.Decision)
		assert.Equal(t, tt.allowed, res.Decision.Allowed)
		assert.Equal(t, b.rules.InForce().Version(), res.Decision.Version)
		assert.Equal(t, before.Version(), r.Tries[0].Decision.Version, "what was written down stands")
		assert.Equal(t, tt.code != "", r.Failed)
		require.NoError(t, b.guard.Settle(t.Context()), "no reload waits for a call that was refused")
		checkLog(t, b)
	})
}

// TestAttemptUnderTheFreshPolicy: an attempt that was dialled under one policy is
// written down under the one in force.
func TestAttemptUnderTheFreshPolicy(t *testing.T) {
	t.Parallel()
	b := newEnv(t, envConfig{method: "POST", key: "k", declared: true})
	b.target.script = []end{{opening: func() { b.enforce(t, unkeyed()) }}, {status: 200}}
	r := b.run()
	require.True(t, r.Answered)
	assert.Equal(t, 2, b.target.opened, "nothing is sent by the connection that was made under the former policy")
	assert.Len(t, r.Tries, 1, "and it is no attempt")
	assert.Equal(t, schemas.ClassOnce, r.Last.Class)
	assert.Equal(t, b.rules.InForce().Version(), r.Last.Decision.Version)
	assert.Nil(t, r.Last.Result.Decision)
	assert.Equal(t, time.Time{}, r.Last.KeyExpiresAt)
}
