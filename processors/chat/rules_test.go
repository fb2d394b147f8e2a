package chat_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/outbound"
	"weir/internal/secrets"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/processors/call/model"
	"weir/schemas"
)

// TestARuleAnswers in the model's place, as the real adapter reads it: nothing is sent,
// and nothing is charged.
func TestARuleAnswers(t *testing.T) {
	t.Parallel()
	const doc = `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"rehearsed"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}}`
	const anyModel = "*://*:*/*chat/completions"
	type testCase struct {
		rules  []schemas.Rule
		stream bool
		code   schemas.Code
		status int
	}
	table.Run(t, map[string]testCase{
		"a whole":            {rules: []schemas.Rule{rulebook.Mock("m", anyModel, 200, doc)}},
		"a whole, in chunks": {rules: []schemas.Rule{rulebook.Mock("m", anyModel, 200, doc)}, stream: true},
		"busy":               {rules: []schemas.Rule{rulebook.Mock("m", anyModel, 429, `{"error":{"message":"slow"}}`)}, code: schemas.ModelFailed, status: 429},
		"nothing":            {rules: []schemas.Rule{rulebook.Mock("m", anyModel, 200, "")}, code: schemas.UpstreamTruncated, status: 502},
		"the second time": {rules: []schemas.Rule{
			rulebook.Mock("m1", "*://a.example:*/*", 503, ""), rulebook.Mock("m2", "*://b.example:*/*", 200, doc),
		}, stream: true},
	}, func(t *testing.T, tt testCase) {
		client := outbound.New(outbound.Config{})
		t.Cleanup(client.Close)
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(t, modelOf("small", "a", "b"))
			h.adapter = model.New(client, secrets.New(secrets.Config{}), model.Config{})
			h.hire()
			h.budgets = []schemas.Budget{{Name: "all", Tokens: 1_000_000, Requests: 5}}
			h.book.Put(t, tt.rules...)
			o := whole()
			o.Stream = tt.stream
			e := h.run(o)
			assert.Equal(t, tt.code, e.Code, e.Message)
			if tt.status > 0 {
				assert.Equal(t, tt.status, e.result.Error.Status)
			} else {
				assert.Equal(t, "rehearsed", said(e.result.Completion))
			}
			assert.Equal(t, tt.stream && tt.code == "", e.given == "rehearsed")
			assert.Nil(t, e.result.Usage)
			require.NotEmpty(t, e.attempts)
			for _, a := range e.attempts {
				assert.True(t, a.Mocked())
				assert.False(t, a.Result.Sent)
				assert.Equal(t, schemas.RouteChat, a.URL)
			}
			for _, a := range e.audits {
				assert.False(t, a.SentOut)
			}
			v := h.account("all")
			assert.Zero(t, v.Open)
			if v.Requests != nil {
				assert.Zero(t, v.Requests.Used)
			}
		})
	})
}

// TestARuleHoldsBack: the completion rests, and goes on where it was.
func TestARuleHoldsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, modelOf("small", "a", "b"))
		h.acts["a"] = []act{{status: 503}}
		h.book.Put(t, rulebook.Delay("d", "*://b.example:*/*", 30_000))
		begun := time.Now()
		var asked time.Duration
		h.acts["b"] = []act{{texts: []string{"Hello"}, first: func() { asked = time.Since(begun) }}}
		e := h.run(order("small"))
		assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		assert.Equal(t, []string{"a", "b"}, h.asked())
		assert.GreaterOrEqual(t, asked, 30*time.Second)
		assert.Contains(t, types(e.types), "waiting")
	})
}

// TestARuleLeadsAway to where policy lets nobody go: the caller and the evidence have its
// name, and neither has an address.
func TestARuleLeadsAway(t *testing.T) {
	t.Parallel()
	type testCase struct {
		rules    []schemas.Rule
		upstream []string
		metadata string
	}
	table.Bubble(t, map[string]testCase{
		"the only one": {[]schemas.Rule{rulebook.Redirect("away", "*://a.example:*/*", "http://elsewhere.example/")}, []string{"a"}, `{"rules":["away"]}`},
		"one of two":   {[]schemas.Rule{rulebook.Redirect("away", "*://a.example:*/*", "http://elsewhere.example/")}, []string{"a", "b"}, ""},
		"in a circle": {[]schemas.Rule{
			rulebook.Redirect("there", "*://a.example:*/*", "http://b.example/"), rulebook.Redirect("back", "*://b.example:*/*", "http://a.example/"),
		}, []string{"a"}, `{"rules":["there"]}`},
	}, func(t *testing.T, tt testCase) {
		h := newHouse(t, modelOf("small", tt.upstream...))
		h.book.Put(t, tt.rules...)
		e := h.run(order("small"))
		require.NotEmpty(t, e.left)
		denial := e.left[0]
		assert.Equal(t, []any{schemas.EvidenceDecision, schemas.DenyRule}, []any{denial.Kind, denial.Code})
		require.NotNil(t, denial.Traffic)
		assert.Contains(t, denial.Traffic.Rules, tt.rules[0].ID)
		if tt.metadata == "" {
			assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
			return
		}
		assert.Equal(t, []any{schemas.OutcomeDenied, schemas.DenyRule, 403}, []any{e.Outcome, e.Code, e.result.Error.Status})
		assert.JSONEq(t, tt.metadata, string(e.result.Error.Metadata))
		assert.NotContains(t, e.result.Error.Message, "example")
	})
}
