package chat_test

import (
	"encoding/json"
	"maps"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/completion"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// TestADialect: its request goes to its own route with the caller's headers, and the result, the
// deltas and the evidence are its own.
func TestADialect(t *testing.T) {
	t.Parallel()
	type testCase struct {
		dialect schemas.Dialect
		order   schemas.ChatOrder
		url     string
		accept  string
		body    string
	}
	background := order("small")
	background.Background, background.Stream = true, false
	background.Body = json.RawMessage(`{"model":"small","background":true,"input":"<hi>","x":1.50}`)
	table.Bubble(t, map[string]testCase{
		"chat":         {schemas.DialectChat, whole(), "/chat/completions", "application/json", `{"model":"real-a","messages":[{"role":"user","content":"<hi>"}]}`},
		"responses":    {schemas.DialectResponses, order("small"), "/responses", "text/event-stream", `{"model":"real-a","input":[{"role":"user","content":"<hi>"}],"stream":true,"x":1.50}`},
		"background":   {schemas.DialectResponses, background, "/responses", "application/json", `{"model":"real-a","input":"<hi>","x":1.50}`},
		"messages":     {schemas.DialectMessages, order("small"), "/messages", "text/event-stream", `{"model":"real-a","input":[{"role":"user","content":"<hi>"}],"stream":true,"x":1.50}`},
		"count_tokens": {schemas.DialectCount, whole(), "/messages/count_tokens", "application/json", `{"model":"real-a","input":[{"role":"user","content":"<hi>"}]}`},
		"embeddings":   {schemas.DialectEmbeddings, whole(), "/embeddings", "application/json", `{"model":"real-a","input":[{"role":"user","content":"<hi>"}]}`},
	}, func(t *testing.T, tt testCase) {
		h := newEnv(t, modelOf("small", "a"))
		e := h.run(in(tt.dialect, tt.order))
		require.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		got := h.calls[0]
		assert.Equal(t, []any{"http://a.example/v1" + tt.url, tt.accept, tt.body}, []any{got.url, got.accept, got.body})
		assert.Equal(t, append([]schemas.Header{{Name: "accept", Value: tt.accept}}, in(tt.dialect, tt.order).Headers...), got.headers)
		dialect := in(tt.dialect, tt.order).Dialect // empty for chat
		assert.Equal(t, []schemas.Dialect{dialect, dialect, dialect}, []schemas.Dialect{got.talk.Dialect, e.result.Dialect, e.audits[0].Dialect})
		assert.Equal(t, tt.order.Stream, e.deltas > 0)
		assert.Equal(t, tt.dialect == schemas.DialectResponses, e.result.ProviderID == "resp_theirs")
		if tt.dialect == schemas.DialectResponses {
			assert.Contains(t, string(e.result.Completion), `"id":"resp_`+ref.ID+`"`)
			assert.NotContains(t, string(e.result.Completion), "resp_theirs")
		}
	})
}

// TestADialectHasItsUpstreams: others are not asked, whatever follows.
func TestADialectHasItsUpstreams(t *testing.T) {
	t.Parallel()
	type testCase struct {
		dialect schemas.Dialect
		a, b    []schemas.Dialect
		asked   []string
	}
	chat, responses, messages := schemas.DialectChat, schemas.DialectResponses, schemas.DialectMessages
	table.Bubble(t, map[string]testCase{
		"both":                 {responses, nil, []schemas.Dialect{chat, responses}, []string{"a", "b"}},
		"the second":           {responses, []schemas.Dialect{chat, messages}, nil, []string{"b"}},
		"the first":            {messages, []schemas.Dialect{messages}, []schemas.Dialect{chat}, []string{"a"}},
		"a count is Messages'": {schemas.DialectCount, []schemas.Dialect{chat}, []schemas.Dialect{messages}, []string{"b"}},
		"chat":                 {chat, []schemas.Dialect{responses}, []schemas.Dialect{chat}, []string{"b"}},
		"none":                 {schemas.DialectEmbeddings, []schemas.Dialect{responses}, []schemas.Dialect{chat}, nil},
	}, func(t *testing.T, tt testCase) {
		m := modelOf("small", "a", "b")
		m.Upstreams[0].Dialects, m.Upstreams[1].Dialects = tt.a, tt.b
		h := newEnv(t, m)
		h.acts["a"], h.acts["b"] = []act{{status: 503}}, []act{{status: 503}}
		e := h.run(in(tt.dialect, whole()))
		assert.Equal(t, schemas.OutcomeFailed, e.Outcome)
		assert.Equal(t, tt.asked, h.asked())
		if tt.asked == nil {
			assert.Equal(t, []any{schemas.ValidationError, 400}, []any{e.Code, e.result.Error.Status})
			assert.Contains(t, e.result.Error.Message, "list embeddings in dialects")
		}
	})
}

// TestADialectThatIsNotSpoken: the error names the protocol, and the key of the configuration. An upstream that does not
// serve the route of a dialect answers with 404, as it does for a model that it does not have.
func TestADialectThatIsNotSpoken(t *testing.T) {
	t.Parallel()
	const other, none = "the model's provider did not answer in the protocol of ", "the model's provider answered with status 404"
	hint := func(name, key string) string {
		return "; if the upstream does not speak " + name + ", leave " + key + " out of the upstream's dialects"
	}
	type testCase struct {
		dialect schemas.Dialect
		act     act
		want    string
	}
	table.Bubble(t, map[string]testCase{
		"chat, another":      {schemas.DialectChat, broke(schemas.UpstreamProtocol, 200), other + "chat completions"},
		"responses, another": {schemas.DialectResponses, broke(schemas.UpstreamProtocol, 200), other + "Responses" + hint("Responses", "responses")},
		"count, another":     {schemas.DialectCount, broke(schemas.UpstreamProtocol, 200), other + "Messages" + hint("Messages", "messages")},
		"no words":           {schemas.DialectResponses, act{status: 404}, none + hint("Responses", "responses")},
		"no code":            {schemas.DialectEmbeddings, act{status: 404, fault: &completion.Fault{Message: "Not Found"}}, "Not Found" + hint("embeddings", "embeddings")},
		"no such model":      {schemas.DialectResponses, act{status: 404, fault: &completion.Fault{Message: "no such model", Code: "model_not_found"}}, "no such model"},
		"chat, no words":     {schemas.DialectChat, act{status: 404}, none},
	}, func(t *testing.T, tt testCase) {
		h := newEnv(t, modelOf("small", "a"))
		h.acts["a"] = []act{tt.act}
		assert.Equal(t, tt.want, h.run(in(tt.dialect, whole())).result.Error.Message)
	})
}

// TestACountCostsNothing: no budget bears it, and none refuses it.
func TestACountCostsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newEnv(t, modelOf("small", "a"))
		h.budgets = []schemas.Budget{{Name: "all", Tokens: 1, Requests: 1}}
		e := h.run(in(schemas.DialectCount, whole()))
		assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		assert.JSONEq(t, `{"input_tokens":9}`, string(e.result.Completion))
		assert.Nil(t, e.result.Usage)
		assert.Nil(t, e.audits[0].Usage)
		assert.Equal(t, "count_tokens", e.audits[0].GenAI["gen_ai.operation.name"])
		assert.Empty(t, h.account("all").Budget, "it has no account")
	})
}

// TestPreviousResponse: only the upstream that made it is asked, by its own id, and no response of
// another is continued.
func TestPreviousResponse(t *testing.T) {
	t.Parallel()
	type testCase struct {
		upstream string
		action   func(a *schemas.Action)
		acts     map[string][]act
		asked    []string
		missing  string // a part of the error
	}
	const elsewhere = "the upstream that made it does not serve this request any more; send the whole conversation"
	table.Bubble(t, map[string]testCase{
		"it is continued":                     {upstream: "b", asked: []string{"b"}},
		"another principal's":                 {upstream: "b", action: func(a *schemas.Action) { a.Principal = "tok-2" }, missing: "does not exist"},
		"an older order":                      {missing: "was accepted by an older version, which did not store who made the previous response; send the request again"},
		"no other is asked":                   {upstream: "b", acts: map[string][]act{"b": {{status: 503}}}, asked: []string{"b"}},
		"its upstream is gone":                {upstream: "z", missing: elsewhere},
		"its upstream is no longer permitted": {upstream: "b", action: func(a *schemas.Action) { a.Entries = []string{schemas.ModelEntry("a")} }, missing: elsewhere},
	}, func(t *testing.T, tt testCase) {
		h := newEnv(t, modelOf("small", "a", "b"))
		maps.Copy(h.acts, tt.acts)
		o := in(schemas.DialectResponses, order("small"))
		o.Previous, o.PreviousID, o.PreviousUpstream, o.PreviousBy = "c-0", "resp_of_b", tt.upstream, "tok-1"
		o.Body = json.RawMessage(`{"model":"small","input":"go on","previous_response_id":"resp_c-0","stream":true}`)
		e := h.run(o, tt.action)
		assert.Equal(t, tt.asked, h.asked())
		if tt.asked == nil {
			assert.Equal(t, []any{schemas.OutcomeFailed, schemas.ValidationError, 400}, []any{e.Outcome, e.Code, e.result.Error.Status})
			assert.Contains(t, e.result.Error.Message, tt.missing)
			assert.JSONEq(t, `{"provider_code":"previous_response_not_found","provider_param":"previous_response_id"}`, string(e.result.Error.Metadata))
			return
		}
		assert.Contains(t, h.calls[0].body, `"previous_response_id":"resp_of_b"`)
		assert.Equal(t, "c-0", h.calls[0].talk.Previous)
	})
}
