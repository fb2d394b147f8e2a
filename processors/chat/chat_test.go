package chat_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/table"
	"weir/schemas"
)

// TestAStream: the attempt is on the log before the call, then every chunk, then the
// whole with what it has used.
func TestAStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, modelOf("small", "a"))
		h.budgets = []schemas.Budget{{Name: "all", Tokens: 10_000, Nanos: 1 << 40}}
		h.acts["a"] = []act{{texts: []string{"Hel", "lo"}, every: time.Millisecond, then: synctest.Wait}}
		o := order("small")
		o.TaskID = "t-9"
		e := h.run(o)
		assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		assert.Equal(t, "accepted started attempt delta delta delta attempted settled", types(e.types))
		assert.Equal(t, "Hello", e.given)
		assert.Equal(t, []string{"small", "real-a", "a"}, []string{e.result.Model, e.result.Sent, e.result.Upstream})
		assert.Equal(t, &schemas.ChatUsage{Prompt: 10, Completion: 5, Total: 15, Nanos: 20*1000 + 7, Priced: true}, e.result.Usage)
		require.Len(t, h.calls, 1)
		assert.Equal(t, `{"model":"real-a","messages":[{"role":"user","content":"<hi>"}],"stream":true,"x":1.50,"stream_options":{"include_usage":true}}`, h.calls[0].body) //nolint:testifylint // to the byte
		assert.Equal(t, "text/event-stream", h.calls[0].accept)
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

// TestAWhole answer leaves no delta.
func TestAWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, modelOf("small", "a"))
		e := h.run(whole())
		assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		assert.Equal(t, "accepted started attempt attempted settled", types(e.types))
		assert.Equal(t, "Hello", said(e.result.Completion))
		assert.Equal(t, `{"model":"real-a","messages":[{"role":"user","content":"<hi>"}]}`, h.calls[0].body) //nolint:testifylint // to the byte
		assert.Equal(t, "application/json", h.calls[0].accept)
	})
}

// TestNoUsage is an estimate, and is marked as one; so is one that nobody can believe, of
// which nothing is taken.
func TestNoUsage(t *testing.T) {
	t.Parallel()
	table.Bubble(t, map[string][]string{
		"none":        nil,
		"negative":    {`{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":-5,"total_tokens":2}}`},
		"endless":     {`{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":1e18,"total_tokens":1e18}}`},
		"a text":      {`{"choices":[],"usage":{"prompt_tokens":"7","completion_tokens":5,"total_tokens":12}}`},
		"a half":      {`{"choices":[],"usage":{"prompt_tokens":7}}`},
		"all nothing": {`{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`},
	}, func(t *testing.T, raw []string) {
		h := newHouse(t, modelOf("small", "a"))
		h.budgets = []schemas.Budget{{Name: "all", Tokens: 1_000_000}}
		h.acts["a"] = []act{{texts: []string{strings.Repeat("x", 40)}, silent: true, raw: raw}}
		e := h.run(order("small"))
		u := e.result.Usage
		require.NotNil(t, u)
		assert.True(t, u.Estimated)
		assert.Equal(t, []int64{100, 10, 110}, []int64{u.Prompt, u.Completion, u.Total})
		assert.InDelta(t, 110, h.account("all").Tokens.Used, 0)
	})
}

// TestNoUsageOfMedia: what is no text is in tokens, and is charged as it is.
func TestNoUsageOfMedia(t *testing.T) {
	t.Parallel()
	for said, want := range map[int64]int64{0: 100 + 2*2048 + 50, 700: 100 + 2*700 + 50} {
		synctest.Test(t, func(t *testing.T) {
			m := modelOf("small", "a")
			m.ImageTokens = said
			h := newHouse(t, m)
			h.budgets = []schemas.Budget{{Name: "all", Tokens: 1_000_000}}
			h.acts["a"] = []act{{texts: []string{strings.Repeat("x", 40)}, silent: true}}
			o := order("small")
			o.Images, o.Media = 2, 50
			e := h.run(o)
			require.NotNil(t, e.result.Usage)
			assert.Equal(t, want, e.result.Usage.Prompt)
			assert.InDelta(t, want+10, h.account("all").Tokens.Used, 0)
		})
	}
}

// TestALargeAnswer lies beside the log, and its evidence says as much as any.
func TestALargeAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, modelOf("small", "a"))
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
		h := newHouse(t, modelOf("small", "a"))
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
			h := newHouse(t, modelOf("small", "a"))
			h.budgets = []schemas.Budget{{Name: "all", Tokens: 10_000}}
			e := h.run(order("small"), func(a *schemas.Action) { a.Payload = []byte(payload) })
			assert.Equal(t, schemas.Poison, e.Code, payload)
			assert.Zero(t, h.account("all").Open, payload)
			assert.Empty(t, h.calls, payload)
		})
	}
}
