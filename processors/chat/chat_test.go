package chat_test

import (
	"strings"
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

// TestAStream: the attempt is on the log before the call, then every chunk, then the
// whole with what it has used.
func TestAStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newEnv(t, modelOf("small", "a"))
		h.budgets = []schemas.Budget{{Name: "all", Tokens: 10_000, Nanos: 1 << 40}}
		h.acts["a"] = []act{{texts: []string{"Hel", "lo"}, every: time.Millisecond, then: synctest.Wait}}
		o := order("small")
		o.TaskID = "t-9"
		e := h.run(o)
		assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		assert.Equal(t, "accepted attempt delta delta delta attempted settled", types(e.types))
		assert.Equal(t, "Hello", e.given)
		assert.Equal(t, []string{"small", "real-a", "a"}, []string{e.result.Model, e.result.Sent, e.result.Upstream})
		assert.Equal(t, &schemas.ChatUsage{Prompt: 10, Completion: 5, Total: 15, Nanos: 20*1000 + 7, Priced: true}, e.result.Usage)
		assert.InDelta(t, 3, e.result.FirstMS, 0.9)
		require.Len(t, h.calls, 1)
		assert.Equal(t, `{"model":"real-a","messages":[{"role":"user","content":"<hi>"}],"stream":true,"x":1.50,"stream_options":{"include_usage":true}}`, h.calls[0].body) //nolint:testifylint // to the byte
		assert.Equal(t, "text/event-stream", h.calls[0].accept)
		assert.EqualValues(t, 1, h.calls[0].talk.Choices)
		assert.Equal(t, schemas.RouteChat, e.attempts[0].URL, "where the model is, is not for the log")

		require.Len(t, e.audits, 1)
		a := e.audits[0]
		assert.Equal(t, []any{"small", "small", "real-a", "a", "t-9", 1, true, 200, true, []string{"stop"}, int64(3)},
			[]any{a.Asked, a.Model, a.Sent, a.Upstream, a.TaskID, a.Attempt, a.Stream, a.Status, a.SentOut, a.Finish, a.FirstMS})
		assert.Equal(t, e.result.Usage, a.Usage)
		assert.Equal(t, map[string]any{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "a", "gen_ai.request.model": "real-a",
			"gen_ai.usage.input_tokens": 10.0, "gen_ai.usage.output_tokens": 5.0, "gen_ai.response.finish_reasons": []any{"stop"},
		}, a.GenAI)
		assert.Regexp(t, "^hmac-sha256:[0-9a-f]{64}$", a.RequestHash)
		assert.Regexp(t, "^hmac-sha256:[0-9a-f]{64}$", a.ResponseHash)
		assert.Equal(t, "model:a", e.left[0].Entry)
		assert.NotEmpty(t, e.left[0].PolicyVersion)
		assert.Equal(t, []schemas.Code{""}, h.metrics.called)
		v := h.account("all")
		assert.InDelta(t, 15, v.Tokens.Used, 0)
		assert.Zero(t, v.Open)
	})
}

func types(list []schemas.EventType) string {
	words := make([]string, len(list))
	for i, w := range list {
		words[i] = string(w)
	}
	return strings.Join(words, " ")
}

// TestNoUsage is an estimate, and is marked as one; so is one that nobody can believe, of which nothing is
// taken. What is no text is in tokens, and is charged as it is.
func TestNoUsage(t *testing.T) {
	t.Parallel()
	type testCase struct {
		told          string // by the provider
		images, media int64
		imageTokens   int64 // by the model's configuration
		prompt        int64
	}
	table.Bubble(t, map[string]testCase{
		"none":             {prompt: 100},
		"negative":         {told: `{"prompt_tokens":7,"completion_tokens":-5,"total_tokens":2}`, prompt: 100},
		"endless":          {told: `{"prompt_tokens":7,"completion_tokens":1e18,"total_tokens":1e18}`, prompt: 100},
		"media":            {images: 2, media: 50, prompt: 100 + 2*2048 + 50},
		"media of a model": {images: 2, media: 50, imageTokens: 700, prompt: 100 + 2*700 + 50},
	}, func(t *testing.T, tt testCase) {
		m := modelOf("small", "a")
		m.ImageTokens = tt.imageTokens
		h := newEnv(t, m)
		h.budgets = []schemas.Budget{{Name: "all", Tokens: 1_000_000}}
		a := act{texts: []string{strings.Repeat("x", 40)}, silent: true}
		if tt.told != "" {
			a.raw = []string{`{"choices":[],"usage":` + tt.told + `}`}
		}
		h.acts["a"] = []act{a}
		o := order("small")
		o.Images, o.Media = tt.images, tt.media
		u := h.run(o).result.Usage
		require.NotNil(t, u)
		assert.True(t, u.Estimated)
		assert.Equal(t, []int64{tt.prompt, 10, tt.prompt + 10}, []int64{u.Prompt, u.Completion, u.Total})
		assert.InDelta(t, tt.prompt+10, h.account("all").Tokens.Used, 0)
	})
}

// TestALargeAnswer lies beside the log, and its evidence says as much as any.
func TestALargeAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newEnv(t, modelOf("small", "a"))
		h.acts["a"] = []act{{texts: []string{strings.Repeat("x", 300<<10), strings.Repeat("y", 2<<20), "z"}}}
		e := h.run(order("small"))
		assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		assert.Len(t, said(e.result.Completion), 300<<10+2<<20+1)
		assert.NotEmpty(t, e.attempts[0].Result.AnswerBlob)
		assert.Equal(t, e.result.Usage, e.audits[0].Usage)
	})
}

// TestModelsThatAreGone by the time they are to be asked.
func TestModelsThatAreGone(t *testing.T) {
	t.Parallel()
	type testCase struct {
		change  func(a *schemas.Action)
		message string
	}
	table.Bubble(t, map[string]testCase{
		"no such model":           {nil, "no model of this name is configured any more"},
		"not one that it may use": {func(a *schemas.Action) { a.Models = []string{"other/*"} }, "the token may not use this model"},
	}, func(t *testing.T, tt testCase) {
		h := newEnv(t, modelOf("small", "a"))
		o := order("small")
		change := tt.change
		if change == nil {
			o, change = order("gone"), func(*schemas.Action) {}
		}
		e := h.run(o, change)
		assert.Equal(t, []any{schemas.OutcomeFailed, schemas.ModelNotFound, 404, tt.message},
			[]any{e.Outcome, e.Code, e.result.Error.Status, e.result.Error.Message})
		assert.Empty(t, h.calls)
		assert.Nil(t, e.result.Usage)
	})
}

// TestPoison: an order that cannot be read is put aside, and frees what it may hold.
func TestPoison(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{`[]`, `{}`, `{"model":"small"}`, `{"model":"small","body":[1],"choices":1}`} {
		synctest.Test(t, func(t *testing.T) {
			h := newEnv(t, modelOf("small", "a"))
			h.budgets = []schemas.Budget{{Name: "all", Tokens: 10_000}}
			e := h.run(order("small"), func(a *schemas.Action) { a.Payload = []byte(payload) })
			assert.Equal(t, schemas.Poison, e.Code, payload)
			assert.Zero(t, h.account("all").Open, payload)
			assert.Empty(t, h.calls, payload)
		})
	}
}

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
			h := newEnv(t, modelOf("small", "a", "b"))
			h.adapter = model.New(client, secrets.New(secrets.Config{}), model.Config{})
			h.Replace()
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
	}, func(t *testing.T, tt testCase) {
		h := newEnv(t, modelOf("small", tt.upstream...))
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
