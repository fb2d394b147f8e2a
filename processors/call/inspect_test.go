package call_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

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
