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
	"weir/internal/policy"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/processors/call"
	"weir/schemas"
)

// behind puts rules in force once the first request is out.
func behind(b *env, first end, rules ...schemas.Rule) {
	b.t.Helper()
	first.during = func() { b.book.Put(b.t, rules...) }
	b.target.script = []end{first, {status: 200}}
}

// TestRulesBehindAnAttempt: rules that come between two attempts change the second,
// but no blind repeat becomes of it, and no doubt ends by a rule's answer.
func TestRulesBehindAnAttempt(t *testing.T) {
	t.Parallel()
	other := rulebook.Redirect("r", "http://up.example/x", "http://up.example/y")
	mock := rulebook.Mock("m", all, 200, "")
	header := rulebook.SetHeader("h", all, "X-A", "1")
	delay := rulebook.Delay("d", all, 10)
	once := func(r call.Result) bool { return r.Failed && r.Exhausted && len(r.Tries) == 1 }
	inDoubt := func(r call.Result) bool { return r.Unknown && len(r.Tries) == 1 }
	byRule := func(r call.Result) bool { return answered(r) && r.Last.Mocked() }
	redirected := func(r call.Result) bool { return answered(r) && r.Last.Decision.Traffic.Redirected == "r" }
	keyed := envConfig{method: "POST", key: "k", declared: true}
	type testCase struct {
		envConfig
		first end
		rule  schemas.Rule
		want  func(call.Result) bool
		urls  []string
	}
	table.Bubble(t, map[string]testCase{
		"a GET is redirected":                             {envConfig{method: "GET"}, end{status: 503}, other, redirected, []string{"/x", "/y"}},
		"a PUT that was answered is redirected":           {envConfig{method: "PUT"}, end{status: 503}, other, answered, []string{"/x", "/y"}},
		"a PUT that nobody answered is shown to no other": {envConfig{method: "PUT"}, slow, other, once, []string{"/x"}},
		"an answer that was cut off says too little":      {envConfig{method: "DELETE"}, cutOff, other, once, []string{"/x"}},
		"a DELETE goes again as it was":                   {envConfig{method: "DELETE"}, slow, header, once, []string{"/x"}},
		"a DELETE, and nothing is changed":                {envConfig{method: "DELETE"}, slow, delay, answered, []string{"/x", "/x"}},
		"a mock is no answer to a PUT":                    {envConfig{method: "PUT"}, slow, mock, once, []string{"/x"}},
		"a mock behind a PUT that was answered":           {envConfig{method: "PUT"}, end{status: 503}, mock, byRule, []string{"/x"}},
		"a PUT that never left":                           {envConfig{method: "PUT"}, unsent, other, answered, []string{"/x", "/y"}},
		"a key is not shown to another":                   {keyed, slow, other, inDoubt, []string{"/x"}},
		"a key goes with its own bytes":                   {keyed, slow, header, inDoubt, []string{"/x"}},
		"a key, and nothing is changed":                   {keyed, slow, delay, answered, []string{"/x", "/x"}},
		"a mock ends no doubt":                            {keyed, slow, mock, inDoubt, []string{"/x"}},
		"a mock, where there is no doubt":                 {keyed, end{status: 503}, mock, byRule, []string{"/x"}},
		"a mock behind a GET":                             {envConfig{method: "GET"}, slow, mock, byRule, []string{"/x"}},
		"a POST that was sent":                            {envConfig{method: "POST"}, slow, mock, unknown, []string{"/x"}},
	}, func(t *testing.T, tt testCase) {
		b := newEnv(t, tt.envConfig)
		behind(b, tt.first, tt.rule)
		r := b.run()
		assert.True(t, tt.want(r), "result: %+v", r)
		b.asked(tt.urls...)
		for _, try := range r.Tries {
			assert.Equal(t, "http://up.example/x", try.URL, "as the action asks for it")
		}
		checkLog(t, b)
	})
}

// TestKeyOfTheShorterPromise: a key is good for as long as the target that got it
// promises, though it was on its way to another before.
func TestKeyOfTheShorterPromise(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newEnv(t, envConfig{method: "POST", key: "k"})
		b.task.Call.AllowlistKey = ""
		entry := func(name, path string, ttl time.Duration) policy.Entry {
			return policy.Entry{Name: name, URLPrefix: "http://up.example/" + path, Methods: []string{"POST"}, UpstreamIdempotency: &policy.Idempotency{TTL: ttl}}
		}
		b.enforce(b.t, entry("x", "x", time.Hour), entry("y", "y", 100*time.Millisecond))
		b.target.script = []end{{openErr: refused.openErr, opening: func() {
			b.book.Put(b.t, rulebook.Redirect("r", "http://up.example/x", "http://up.example/y"))
		}}, reset}
		r := b.run()
		assert.True(t, r.Unknown, "%+v", r)
		assert.Equal(t, []string{"http://up.example/y"}, b.target.urls)
	})
}

// TestRulesWhileItDials: a call that rules have changed since it was asked about is
// not sent as it was: everything begins anew, and no attempt was made.
func TestRulesWhileItDials(t *testing.T) {
	t.Parallel()
	const x, y = "http://up.example/x", "http://up.example/y"
	type testCase struct {
		story
		opened int
	}
	table.Bubble(t, map[string]testCase{
		"a mock":         {story{act: puts(0, rulebook.Mock("m", all, 202, "")), want: answers(202)}, 1},
		"a redirect":     {story{act: puts(0, rulebook.Redirect("r", x, y)), want: answered, paths: []string{"/y"}}, 2},
		"a redirect out": {story{act: puts(0, rulebook.Redirect("r", all, "http://evil.example/")), want: refusedFor(schemas.DenyRule)}, 1},
		"a header":       {story{act: puts(0, rulebook.SetHeader("h", all, "X-A", "1")), want: answered, paths: []string{"/x"}}, 2},
		"a delay":        {story{act: puts(0, rulebook.Delay("d", all, 400)), want: answered, paths: []string{"/x"}, took: 400 * time.Millisecond}, 2},
		"rules that nobody can read": {
			story{act: func(b *env) { b.book.Break(errors.New("torn")) }, want: refusedFor(schemas.DenyRule)}, 1,
		},
		"one for others": {story{act: puts(0, rulebook.Mock("m", "http://other.example/*", 202, "")), want: answers(200), paths: []string{"/x"}}, 1},
	}, func(t *testing.T, tt testCase) {
		change := tt.act
		tt.method, tt.act = "POST", func(b *env) {
			b.target.script = []end{{status: 200, opening: func() { change(b) }}, {status: 200}}
		}
		b, r := tt.play(t)
		assert.Equal(t, tt.opened, b.target.opened)
		for i, try := range r.Tries {
			assert.Equal(t, i+1, try.Number)
		}
		assert.LessOrEqual(t, len(r.Tries), 1)
	})
}

// TestRulesBehindTheRecord: what is written down is what is sent.
func TestRulesBehindTheRecord(t *testing.T) {
	t.Parallel()
	var b *env
	b = newEnv(t, envConfig{method: "POST", script: status(200), barrier: func(context.Context) error {
		b.book.Put(b.t, rulebook.Redirect("r", "http://up.example/x", "http://up.example/y"))
		return nil
	}})
	r := b.run()
	assert.True(t, r.Answered)
	assert.Equal(t, []string{"http://up.example/x"}, b.target.urls)
	assert.Nil(t, r.Last.Decision.Traffic)
	checkLog(t, b)
}

// TestRedirectUnderRules: each redirect of the target's is shaped, held back and written
// down as a call of its own.
func TestRedirectUnderRules(t *testing.T) {
	t.Parallel()
	const y, z = "http://up.example/y", "http://up.example/z"
	hop, half := end{status: 302, location: "/y"}, rulebook.Delay("d", y, minute/2)
	whole := []schemas.Rule{rulebook.Delay("d", y, minute), rulebook.Delay("e", y, minute), rulebook.Delay("f", y, minute)}
	led := func(r call.Result) bool { return r.Last.Decision.Traffic.Redirected == "r" }
	arrived := tries(2, func(r call.Result) bool { return r.Answered && r.Last.Hop == 1 })
	table.Bubble(t, map[string]story{
		"redirected": {
			rules: []schemas.Rule{rulebook.Redirect("r", y, z)}, paths: []string{"/x", "/z"},
			want: func(r call.Result) bool { return arrived(r) && led(r) },
		},
		"redirected out": {
			rules: []schemas.Rule{rulebook.Redirect("r", y, "http://evil.example/")}, paths: []string{"/x"},
			want: func(r call.Result) bool { return r.Failed && r.Last.Result.Code == schemas.DenyRule && led(r) },
		},
		"mocked": {
			rules: []schemas.Rule{rulebook.Mock("m", y, 200, "")}, paths: []string{"/x"},
			want: func(r call.Result) bool { return arrived(r) && r.Last.Mocked() && !r.Last.Result.Sent },
		},
		"mocked where policy lets none go": {act: func(b *env) {
			b.book.Put(b.t, rulebook.Mock("m", "http://evil.example/*", 200, ""))
			b.target.script = []end{{status: 302, location: "http://evil.example/"}}
		}, paths: []string{"/x"}, want: func(r call.Result) bool { return r.Failed && r.Last.Result.Code == schemas.DenyRedirect }},
		"held back for long":               {rules: []schemas.Rule{half}, want: arrived, paths: []string{"/x", "/y"}, took: 30 * time.Second},
		"held back, then not":              {rules: []schemas.Rule{half}, act: puts(time.Second), want: arrived, paths: []string{"/x", "/y"}, took: time.Second},
		"held back for too long, then not": {rules: whole[:1], act: puts(10 * time.Second), want: arrived, paths: []string{"/x", "/y"}, took: 10 * time.Second},
		"stopped meanwhile": {
			rules: []schemas.Rule{half}, act: func(b *env) { time.AfterFunc(time.Second, b.stop.Pull) },
			want: tries(1, canceled), paths: []string{"/x"}, took: time.Second,
		},
		"the deadline comes": {
			rules: whole, act: func(b *env) { b.task.Timeout = 3 * time.Minute },
			want: tries(1, func(r call.Result) bool { return r.Expired }), paths: []string{"/x"}, took: 2 * time.Minute,
		},
		"changed while it is dialled": {act: func(b *env) {
			change := puts(0, rulebook.Redirect("r", y, z))
			b.target.script = []end{hop, {status: 200, opening: func() { change(b) }}, {status: 200}}
		}, want: arrived, paths: []string{"/x", "/z"}},
	}, func(t *testing.T, s story) {
		s.envConfig = envConfig{method: "GET", redirects: 1, hold: 3 * time.Minute, script: []end{hop, {status: 200}}}
		_, r := s.play(t)
		for _, try := range r.Tries {
			assert.Equal(t, 1, try.Number)
		}
	})
}

// TestRulesAreCounted by their types, once an attempt.
func TestRulesAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newEnv(t, envConfig{method: "GET", script: status(503, 200)})
		b.book.Put(b.t, rulebook.Redirect("r", "http://up.example/x", "http://up.example/y"), rulebook.Delay("d", all, 1), rulebook.Delay("e", all, 1),
			rulebook.SetHeader("h", all, "X-A", "1"), rulebook.SetHeader("i", all, "X-B", "1"))
		b.run()
		assert.Equal(t, map[string]int{
			"attempts": 2, "retries": 1, schemas.RuleRedirect: 2, schemas.RuleDelay: 2, schemas.RuleHeaders: 2,
		}, b.counted)
	})
}

// TestMock: a call that a rule answers is judged as if the target had, and nothing
// of it is sent or written down before.
func TestMock(t *testing.T) {
	t.Parallel()
	type testCase struct {
		envConfig
		status int
		want   func(call.Result) bool
		mocked int
		took   time.Duration
	}
	table.Bubble(t, map[string]testCase{
		"a GET":               {envConfig{method: "GET"}, 200, answered, 1, 0},
		"a POST":              {envConfig{method: "POST"}, 200, answered, 1, 0},
		"a GET's 503":         {envConfig{method: "GET"}, 503, spent, 3, 600 * time.Millisecond},
		"a GET's 404":         {envConfig{method: "GET"}, 404, answered, 1, 0},
		"a POST's 503":        {envConfig{method: "POST"}, 503, answered, 1, 0},
		"a keyed POST's 503":  {envConfig{method: "POST", key: "k", declared: true}, 503, spent, 3, 600 * time.Millisecond},
		"a plan's 503":        {envConfig{method: "GET", plan: true}, 503, answered, 1, 0},
		"what policy refuses": {envConfig{method: "TRACE"}, 200, func(r call.Result) bool { return r.Denied && r.Decision.Traffic.Mocked == "m" }, 0, 0},
	}, func(t *testing.T, tt testCase) {
		tt.barrier = func(context.Context) error { return errors.New("there is nothing to wait for") }
		b := newEnv(t, tt.envConfig)
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
	b := newEnv(t, envConfig{method: "POST"})
	b.book.Put(b.t, rulebook.Mock("m", all, 200, ""))
	b.target.mocking = func() error { return &fault.Call{Code: schemas.UpstreamProtocol, Sent: true, Status: 200} }
	r := b.run()
	assert.True(t, r.Failed, "%+v", r)
	assert.Len(t, r.Tries, 1, "and it is repeated no more than a real one")
	assert.False(t, r.Last.Result.Sent)

	b = newEnv(t, envConfig{method: "POST"})
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
		b := newEnv(t, envConfig{method: "POST", key: "k", declared: true})
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
