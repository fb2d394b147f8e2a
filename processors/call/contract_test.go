package call_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/processors/call"
	"weir/schemas"
)

// TestContract holds the retry and never_retry of an entry against each class.
func TestContract(t *testing.T) {
	t.Parallel()
	scheduled := func(attempts int, on ...int) policy.Contract {
		return policy.Contract{Retry: &policy.Retry{Attempts: attempts, Base: time.Second, Cap: 2 * time.Second, On: on}}
	}
	never := func(n policy.NeverRetry) policy.Contract { return policy.Contract{NeverRetry: &n} }
	said := func(value string) []end {
		return []end{{status: 503, headers: []schemas.Header{{Name: "x-should-retry", Value: value}}}, {status: 200}}
	}
	says := never(policy.NeverRetry{Header: map[string]string{"X-Should-Retry": "false"}})
	const (
		once  = 200 * time.Millisecond
		twice = 600 * time.Millisecond
	)
	type testCase struct {
		envConfig
		want func(call.Result) bool
		took time.Duration
	}
	table.Bubble(t, map[string]testCase{
		"five attempts":                 {envConfig{method: "GET", contract: scheduled(5), script: status(503)}, tries(5, spent), 7 * time.Second},
		"one attempt":                   {envConfig{method: "GET", contract: scheduled(1), script: status(503)}, tries(1, spent), 0},
		"the kind's own attempts":       {envConfig{method: "GET", attempts: 2, contract: scheduled(5), script: status(503)}, tries(2, spent), time.Second},
		"a longer wish":                 {envConfig{method: "GET", contract: scheduled(2), script: []end{{status: 503, wish: 3 * time.Second}, {status: 200}}}, tries(2, answered), 3 * time.Second},
		"a status of the list":          {envConfig{method: "GET", contract: scheduled(3, 409), script: status(409, 200)}, tries(2, answered), time.Second},
		"a status that is not on it":    {envConfig{method: "GET", contract: scheduled(3, 409), script: status(503)}, tries(1, answered), 0},
		"once is never repeated":        {envConfig{method: "POST", contract: scheduled(3, 503), script: status(503)}, tries(1, answered), 0},
		"a plan's answer":               {envConfig{method: "GET", plan: true, contract: scheduled(3, 409), script: status(409)}, tries(1, answered), 0},
		"a final status":                {envConfig{method: "GET", contract: never(policy.NeverRetry{Status: []int{503}}), script: status(503)}, tries(1, answered), 0},
		"a final status, second answer": {envConfig{method: "GET", contract: never(policy.NeverRetry{Status: []int{501}}), script: status(503, 501)}, tries(2, answered), once},
		"a final status of a key":       {envConfig{method: "POST", key: "k", declared: true, contract: never(policy.NeverRetry{Status: []int{500}}), script: status(500)}, tries(1, answered), 0},
		"a header ends it":              {envConfig{method: "GET", contract: says, script: said("False")}, tries(1, answered), 0},
		"a header with another value":   {envConfig{method: "GET", contract: says, script: said("true")}, tries(2, answered), once},
	}, func(t *testing.T, tt testCase) {
		b := newEnv(t, tt.envConfig)
		r := b.run()
		assert.True(t, tt.want(r), "result: %+v", r)
		assert.Equal(t, tt.took, b.elapsed())
		assert.Len(t, b.left, len(r.Tries), "every attempt leaves evidence")
		checkLog(t, b)

		again := b.run() // another worker reads the same result from the log
		assert.Equal(t, r.Exhausted, again.Exhausted)
		assert.Len(t, again.Tries, len(r.Tries))
	})
}

// TestDerivedKey: an entry that derives keys makes a POST repeatable, with one key on every attempt.
func TestDerivedKey(t *testing.T) {
	t.Parallel()
	type testCase struct {
		envConfig
		want    func(call.Result) bool
		class   schemas.Class
		derived bool
	}
	table.Bubble(t, map[string]testCase{
		"answered at the second attempt": {envConfig{method: "POST", script: []end{reset, {status: 200}}}, tries(2, answered), schemas.ClassKeyed, true},
		"after a 503":                    {envConfig{method: "PATCH", script: status(503, 201)}, tries(2, answered), schemas.ClassKeyed, true},
		"never answered":                 {envConfig{method: "POST", script: []end{reset}}, tries(3, unknown), schemas.ClassKeyed, true},
		"the caller's own key":           {envConfig{method: "POST", key: "mine", script: []end{reset, {status: 200}}}, tries(2, answered), schemas.ClassKeyed, false},
		"a PUT needs none":               {envConfig{method: "PUT", script: []end{reset, {status: 200}}}, tries(2, answered), schemas.ClassIdempotent, false},
	}, func(t *testing.T, tt testCase) {
		tt.declared, tt.derive = true, true
		b := newEnv(t, tt.envConfig)
		r := b.run()
		require.True(t, tt.want(r), "result: %+v", r)
		want, derived := tt.key, ""
		if tt.derived {
			derived = b.task.State.Action.DerivedKey(0)
			want = derived
		}
		for i, try := range r.Tries {
			assert.Equal(t, want, b.target.keys[i])
			assert.Equal(t, derived, try.DerivedKey)
			assert.Equal(t, tt.class, try.Class)
			assert.Equal(t, tt.class == schemas.ClassKeyed, !try.KeyExpiresAt.IsZero())
			assert.Equal(t, r.Tries[0].Digest, try.Digest)
		}
		checkLog(t, b)
	})
}

// TestReloadOfAKeyPromise: a call that was sent with a key is sent again only with that key, in the same
// header, and only as long as the entry says so.
func TestReloadOfAKeyPromise(t *testing.T) {
	t.Parallel()
	entry := func(i *policy.Idempotency) policy.Entry {
		return policy.Entry{Name: "up", URLPrefix: "http://up.example/", Methods: []string{"GET", "POST"}, UpstreamIdempotency: i}
	}
	type testCase struct {
		to   policy.Entry
		want func(call.Result) bool
	}
	required := entry(&policy.Idempotency{TTL: time.Hour})
	required.RequiresKey = true
	table.Bubble(t, map[string]testCase{
		"the same":              {entry(&policy.Idempotency{TTL: time.Hour, Derive: true}), tries(2, answered)},
		"no key is derived":     {entry(&policy.Idempotency{TTL: time.Hour}), tries(1, unknown)},
		"a key is required":     {required, tries(1, unknown)},
		"in another header":     {entry(&policy.Idempotency{TTL: time.Hour, Derive: true, Header: "X-Request-Key"}), tries(1, unknown)},
		"no promise about keys": {entry(nil), tries(1, unknown)},
	}, func(t *testing.T, tt testCase) {
		b := newEnv(t, envConfig{method: "POST", declared: true, derive: true})
		lost := reset
		lost.during = func() { b.enforce(t, tt.to) }
		b.target.script = []end{lost, {status: 200}}
		r := b.run()
		assert.True(t, tt.want(r), "result: %+v", r)
		assert.Equal(t, len(r.Tries), b.target.sent)
		checkLog(t, b)
	})
}

// TestKeyOfARedrive: an action that was made from another sends the other's key, and no later than the
// target may forget it.
func TestKeyOfARedrive(t *testing.T) {
	t.Parallel()
	for expires, want := range map[time.Duration]func(call.Result) bool{
		time.Hour:              tries(2, answered),
		100 * time.Millisecond: tries(1, unknown),
		-time.Minute:           tries(2, answered), // the key is new to the target
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newEnv(t, envConfig{method: "POST", declared: true, derive: true, script: []end{reset, {status: 200}}})
			b.run()
			seed, until := b.task.State.Keys()
			require.Equal(t, b.task.State.Action.Seed(), seed)
			require.WithinDuration(t, b.start.Add(time.Hour), until, 0)
			old := b.target.keys[0]

			b.anew(t)
			b.target.opened = 0
			b.task.State.Action.KeySeed, b.task.State.Action.KeyExpiresAt = seed, time.Now().Add(expires)
			r := b.run()
			assert.True(t, want(r), "%s: %+v", expires, r)
			assert.Equal(t, old, b.target.keys[2])
			again, _ := b.task.State.Keys()
			assert.Equal(t, seed, again)
		})
	}
}

// TestInspect: the response schema of an entry judges or changes an answer before the log has it.
func TestInspect(t *testing.T) {
	t.Parallel()
	const schema = `{"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}`
	const strict, warn, redact = policy.SchemaStrict, policy.SchemaWarn, policy.SchemaRedact
	const invalid, noJSON = schemas.ResponseSchemaInvalid, schemas.ResponseNotJSON
	type testCase struct {
		mode, method string
		answer       end
		code         schemas.Code // of the finding; empty: there is none
		body         string       // as it is stored
	}
	big := `{"id":1,"x":"` + strings.Repeat("secret ", schemas.InlineLimit/6) + `"}`
	table.Bubble(t, map[string]testCase{
		"strict, it fits":          {strict, "GET", end{status: 200, body: `{"id":1,"x":2}`}, "", `{"id":1,"x":2}`},
		"strict, it does not":      {strict, "GET", end{status: 200, body: `{"x":2}`}, invalid, `{"x":2}`},
		"strict, text":             {strict, "GET", end{status: 200, body: `secret`}, noJSON, `"secret"`},
		"strict, no body":          {strict, "GET", end{status: 200}, noJSON, "null"},
		"strict, 204":              {strict, "DELETE", end{status: 204}, "", "null"},
		"strict, HEAD":             {strict, "HEAD", end{status: 200}, "", "null"},
		"strict, 404":              {strict, "GET", end{status: 404, body: `{"x":2}`}, "", `{"x":2}`},
		"warn, it does not":        {warn, "POST", end{status: 201, body: `{"x":2}`}, invalid, `{"x":2}`},
		"redact, it fits":          {redact, "GET", end{status: 200, body: `{"id":1}`}, "", `{"id":1}`},
		"redact, more than named":  {redact, "GET", end{status: 200, body: `{"secret":"secret", "id":1}`}, "", `{"id":1}`},
		"redact, large":            {redact, "GET", end{status: 200, body: big}, "", `{"id":1}`},
		"redact, it does not":      {redact, "GET", end{status: 200, body: `{"id":"1", "secret":2}`}, invalid, `{"id":"1"}`},
		"redact, text":             {redact, "GET", end{status: 200, body: `secret`}, noJSON, "null"},
		"redact, a failure's body": {redact, "GET", end{status: 404, body: `{"x":2}`}, "", `{"x":2}`},
	}, func(t *testing.T, tt testCase) {
		b := newEnv(t, envConfig{
			method: tt.method, script: []end{tt.answer},
			contract: policy.Contract{ResponseSchema: &policy.ResponseSchema{Schema: []byte(schema), Mode: tt.mode}},
		})
		r := b.run()
		assert.True(t, answers(tt.answer.status)(r))
		st := harness.Load(t, b.ledger, b.task.State.Ref)
		res := st.Attempts[0].Result
		require.Equal(t, tt.code != "", res.Schema != nil, "%+v", res.Schema)
		if tt.code != "" {
			assert.Equal(t, []any{tt.code, tt.mode}, []any{res.Schema.Code, res.Schema.Mode})
			assert.NotEmpty(t, res.Schema.Violations)
			assert.Equal(t, 1, b.counted["up "+tt.mode])
		}
		assert.Equal(t, tt.body, string(res.Answer.Body))
		if tt.mode == redact && tt.answer.status == 200 {
			assert.Empty(t, res.Answer.Snippet)
			assert.Empty(t, res.AnswerBlob)
		}
	})
}

// TestInspectLeavesAlone the answer of a traffic rule, which the operator wrote, and the shape of a
// probe's answer. Of that, too, only named members are stored.
func TestInspectLeavesAlone(t *testing.T) {
	t.Parallel()
	contract := probed()
	contract.ResponseSchema = &policy.ResponseSchema{Schema: []byte(`{"required": ["id"], "properties": {"id": {}}}`), Mode: policy.SchemaRedact}
	contract.Reconcile.Applied = "response.body.state == 'paid'"
	b := newEnv(t, envConfig{method: "POST", contract: contract, script: []end{reset, {status: 200, body: `{"state":"paid"}`}}})
	r := b.run()
	assert.True(t, reconciledTo(r), "%+v", r)
	assert.JSONEq(t, `{}`, string(r.Last.Result.Answer.Body))
	assert.Nil(t, r.Last.Result.Schema)

	b = newEnv(t, envConfig{method: "GET", contract: contract})
	b.book.Put(t, rulebook.Mock("m", "http://up.example/*", 200, `{"a":1}`))
	r = b.run()
	assert.Nil(t, r.Last.Result.Schema)
	assert.JSONEq(t, `{"a":1}`, string(r.Last.Result.Answer.Body))
}
