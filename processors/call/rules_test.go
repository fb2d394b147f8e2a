package call_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"weir/internal/policy"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/processors/call"
	"weir/schemas"
)

// behind puts rules in force once the first request is out.
func behind(b *desk, first end, rules ...schemas.Rule) {
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
	keyed := deskConfig{method: "POST", key: "k", declared: true}
	type testCase struct {
		deskConfig
		first end
		rule  schemas.Rule
		want  func(call.Result) bool
		urls  []string
	}
	table.Bubble(t, map[string]testCase{
		"a GET is redirected":                             {deskConfig{method: "GET"}, end{status: 503}, other, redirected, []string{"/x", "/y"}},
		"a PUT that was answered is redirected":           {deskConfig{method: "PUT"}, end{status: 503}, other, answered, []string{"/x", "/y"}},
		"a PUT that nobody answered is shown to no other": {deskConfig{method: "PUT"}, slow, other, once, []string{"/x"}},
		"an answer that was cut off says too little":      {deskConfig{method: "DELETE"}, cutOff, other, once, []string{"/x"}},
		"a DELETE goes again as it was":                   {deskConfig{method: "DELETE"}, slow, header, once, []string{"/x"}},
		"a DELETE, and nothing is changed":                {deskConfig{method: "DELETE"}, slow, delay, answered, []string{"/x", "/x"}},
		"a mock is no answer to a PUT":                    {deskConfig{method: "PUT"}, slow, mock, once, []string{"/x"}},
		"a mock behind a PUT that was answered":           {deskConfig{method: "PUT"}, end{status: 503}, mock, byRule, []string{"/x"}},
		"a PUT that never left":                           {deskConfig{method: "PUT"}, unsent, other, answered, []string{"/x", "/y"}},
		"a key is not shown to another":                   {keyed, slow, other, inDoubt, []string{"/x"}},
		"a key goes with its own bytes":                   {keyed, slow, header, inDoubt, []string{"/x"}},
		"a key, and nothing is changed":                   {keyed, slow, delay, answered, []string{"/x", "/x"}},
		"a mock ends no doubt":                            {keyed, slow, mock, inDoubt, []string{"/x"}},
		"a mock, where there is no doubt":                 {keyed, end{status: 503}, mock, byRule, []string{"/x"}},
		"a mock behind a GET":                             {deskConfig{method: "GET"}, slow, mock, byRule, []string{"/x"}},
		"a POST that was sent":                            {deskConfig{method: "POST"}, slow, mock, unknown, []string{"/x"}},
	}, func(t *testing.T, tt testCase) {
		b := newDesk(t, tt.deskConfig)
		behind(b, tt.first, tt.rule)
		r := b.run()
		assert.True(t, tt.want(r), "result: %+v", r)
		var urls []string
		for _, path := range tt.urls {
			urls = append(urls, "http://up.example"+path)
		}
		assert.Equal(t, urls, b.target.urls)
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
		b := newDesk(t, deskConfig{method: "POST", key: "k"})
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
	type testCase struct {
		change func(b *desk)
		want   func(call.Result) bool
		opened int
		urls   []string
		took   time.Duration
	}
	table.Bubble(t, map[string]testCase{
		"a mock": {
			func(b *desk) { b.book.Put(b.t, rulebook.Mock("m", all, 202, "")) },
			func(r call.Result) bool { return r.Answered && r.Last.Result.Status == 202 }, 1, nil, 0,
		},
		"a redirect": {
			func(b *desk) {
				b.book.Put(b.t, rulebook.Redirect("r", "http://up.example/x", "http://up.example/y"))
			},
			answered, 2,
			[]string{"http://up.example/y"},
			0,
		},
		"a redirect out": {
			func(b *desk) { b.book.Put(b.t, rulebook.Redirect("r", all, "http://evil.example/")) },
			func(r call.Result) bool { return r.Denied && r.Decision.Code == schemas.DenyRule }, 1, nil, 0,
		},
		"a header": {
			func(b *desk) { b.book.Put(b.t, rulebook.SetHeader("h", all, "X-A", "1")) },
			answered, 2,
			[]string{"http://up.example/x"},
			0,
		},
		"a delay": {
			func(b *desk) { b.book.Put(b.t, rulebook.Delay("d", all, 400)) },
			answered, 2,
			[]string{"http://up.example/x"},
			400 * time.Millisecond,
		},
		"rules that nobody can read": {
			func(b *desk) { b.book.Break(errors.New("torn")) },
			func(r call.Result) bool { return r.Denied && r.Decision.Code == schemas.DenyRule }, 1, nil, 0,
		},
		"one for others": {
			func(b *desk) { b.book.Put(b.t, rulebook.Mock("m", "http://other.example/*", 202, "")) },
			func(r call.Result) bool { return r.Answered && r.Last.Result.Status == 200 }, 1,
			[]string{"http://up.example/x"},
			0,
		},
	}, func(t *testing.T, tt testCase) {
		b := newDesk(t, deskConfig{method: "POST"})
		b.target.script = []end{{status: 200, opening: func() { tt.change(b) }}, {status: 200}}
		r := b.run()
		assert.True(t, tt.want(r), "result: %+v", r)
		assert.Equal(t, tt.opened, b.target.opened)
		assert.Equal(t, tt.urls, b.target.urls)
		assert.Equal(t, tt.took, b.elapsed())
		for i, try := range r.Tries {
			assert.Equal(t, i+1, try.Number)
		}
		assert.LessOrEqual(t, len(r.Tries), 1)
		checkLog(t, b)
	})
}

// TestRulesBehindTheRecord: what is written down is what is sent.
func TestRulesBehindTheRecord(t *testing.T) {
	t.Parallel()
	var b *desk
	b = newDesk(t, deskConfig{method: "POST", script: status(200), barrier: func(context.Context) error {
		b.book.Put(b.t, rulebook.Redirect("r", "http://up.example/x", "http://up.example/y"))
		return nil
	}})
	r := b.run()
	assert.True(t, r.Answered)
	assert.Equal(t, []string{"http://up.example/x"}, b.target.urls)
	assert.Nil(t, r.Last.Decision.Traffic)
	checkLog(t, b)
}

// TestHopUnderRules: each redirect of the target's is shaped, held back and written
// down as a call of its own.
func TestHopUnderRules(t *testing.T) {
	t.Parallel()
	hop := end{status: 302, location: "/y"}
	const y = "http://up.example/y"
	type testCase struct {
		rules []schemas.Rule
		act   func(b *desk)
		want  func(call.Result) bool
		urls  []string
		took  time.Duration
	}
	table.Bubble(t, map[string]testCase{
		"redirected": {
			[]schemas.Rule{rulebook.Redirect("r", y, "http://up.example/z")},
			nil,
			func(r call.Result) bool {
				return r.Answered && r.Last.Hop == 1 && r.Last.Decision.Traffic.Redirected == "r"
			},
			[]string{"/x", "/z"},
			0,
		},
		"redirected out": {
			[]schemas.Rule{rulebook.Redirect("r", y, "http://evil.example/")},
			nil,
			func(r call.Result) bool {
				return r.Failed && r.Last.Result.Code == schemas.DenyRule && r.Last.Decision.Traffic.Redirected == "r"
			},
			[]string{"/x"},
			0,
		},
		"mocked": {
			[]schemas.Rule{rulebook.Mock("m", y, 200, "")},
			nil,
			func(r call.Result) bool {
				return r.Answered && r.Last.Hop == 1 && r.Last.Mocked() && !r.Last.Result.Sent
			},
			[]string{"/x"},
			0,
		},
		"held back for long": {
			[]schemas.Rule{rulebook.Delay("d", y, minute/2)},
			nil,
			func(r call.Result) bool { return r.Answered && len(r.Tries) == 2 },
			[]string{"/x", "/y"},
			30 * time.Second,
		},
		"held back, then not": {
			[]schemas.Rule{rulebook.Delay("d", y, minute/2)},
			func(b *desk) { time.AfterFunc(time.Second, func() { b.book.Put(b.t) }) },
			func(r call.Result) bool { return r.Answered && len(r.Tries) == 2 },
			[]string{"/x", "/y"},
			time.Second,
		},
		"held back for too long, then not": {
			[]schemas.Rule{rulebook.Delay("d", y, minute)},
			func(b *desk) { time.AfterFunc(10*time.Second, func() { b.book.Put(b.t) }) },
			func(r call.Result) bool { return r.Answered && len(r.Tries) == 2 },
			[]string{"/x", "/y"},
			10 * time.Second,
		},
		"stopped meanwhile": {
			[]schemas.Rule{rulebook.Delay("d", y, minute/2)},
			func(b *desk) { time.AfterFunc(time.Second, b.stop.Pull) },
			func(r call.Result) bool { return r.Canceled && len(r.Tries) == 1 },
			[]string{"/x"},
			time.Second,
		},
		"the deadline comes": {
			[]schemas.Rule{rulebook.Delay("d", y, minute), rulebook.Delay("e", y, minute), rulebook.Delay("f", y, minute)},
			func(b *desk) { b.task.Timeout = 3 * time.Minute },
			func(r call.Result) bool { return r.Expired && len(r.Tries) == 1 },
			[]string{"/x"},
			2 * time.Minute,
		},
		"changed while it is dialled": {
			nil,
			func(b *desk) {
				b.target.script = []end{hop, {status: 200, opening: func() { b.book.Put(b.t, rulebook.Redirect("r", y, "http://up.example/z")) }}, {status: 200}}
			},
			func(r call.Result) bool { return r.Answered && len(r.Tries) == 2 && r.Last.Hop == 1 },
			[]string{"/x", "/z"},
			0,
		},
	}, func(t *testing.T, tt testCase) {
		b := newDesk(t, deskConfig{method: "GET", hold: 3 * time.Minute, script: []end{hop, {status: 200}}})
		b.enforce(b.t, policy.Entry{Name: "up", URLPrefix: "http://up.example/", Redirects: 1})
		b.book.Put(b.t, tt.rules...)
		if tt.act != nil {
			tt.act(b)
		}
		r := b.run()
		assert.True(t, tt.want(r), "result: %+v", r)
		var urls []string
		for _, path := range tt.urls {
			urls = append(urls, "http://up.example"+path)
		}
		assert.Equal(t, urls, b.target.urls)
		assert.Equal(t, tt.took, b.elapsed())
		for _, try := range r.Tries {
			assert.Equal(t, 1, try.Number)
		}
		checkLog(t, b)
	})
}

// TestRulesAreCounted by their types, once an attempt.
func TestRulesAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newDesk(t, deskConfig{method: "GET", script: status(503, 200)})
		b.book.Put(b.t, rulebook.Redirect("r", "http://up.example/x", "http://up.example/y"), rulebook.Delay("d", all, 1), rulebook.Delay("e", all, 1),
			rulebook.SetHeader("h", all, "X-A", "1"), rulebook.SetHeader("i", all, "X-B", "1"))
		b.run()
		assert.Equal(t, map[string]int{
			"attempts": 2, "retries": 1, schemas.RuleRedirect: 2, schemas.RuleDelay: 2, schemas.RuleHeaders: 2,
		}, b.counted)
	})
}
