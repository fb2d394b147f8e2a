//go:build e2e

package integration_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"weir/internal/weirtest/llm"
	"weir/schemas"
)

// chatConfig writes a configuration whose models are all the provider's, and more.
func chatConfig(tb testing.TB, provider *llm.Server, more string) string {
	tb.Helper()
	return configFile(tb, fmt.Sprintf("models:\n  \"sim/*\": {url: %q, headers: {Authorization: \"Bearer ${secret:PROVIDER}\"}}\n", provider.URL())+more)
}

// TestChatClient asks with the npm package that most programs ask with, under every base that it may be
// given: for whole answers, for streams, with tools, and for the list of models.
func TestChatClient(t *testing.T) {
	t.Parallel()
	tools := llm.Act{Tools: []llm.Tool{{ID: "call-1", Name: "weather", Arguments: []string{`{"city":`, `"Oslo"}`}}}}
	provider := llm.New(t, llm.Config{Key: providerKey, Models: map[string]llm.Act{"sim/tools": tools}, Listed: []string{"sim/plain", "sim/tools"}})
	w := serveChat(t, t.TempDir(), chatConfig(t, provider, ""))
	parameters := map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}
	withTools := map[string]any{"tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": "weather", "parameters": parameters}}}}
	withUsage := map[string]any{"stream_options": map[string]any{"include_usage": true}}
	text := map[string]any{"choices.0.message.content": "Hello, world", "choices.0.finish_reason": "stop"}
	called := map[string]any{"choices.0.message.tool_calls.#": 1.0, "choices.0.message.tool_calls.0.function.name": "weather", "choices.0.message.tool_calls.0.function.arguments": `{"city":"Oslo"}`}
	var orders []modelOrder
	var wants []map[string]any
	add := func(base, op, model string, more, want map[string]any) {
		o := modelOrder{Client: chatClient, Op: op}.asking(w, model, more)
		o.Base = w.URL + base
		orders, wants = append(orders, o), append(wants, want)
	}
	for _, base := range []string{"", "/v1", "/api", "/api/v1", "/api/"} {
		add(base, "create", "sim/plain", nil, text)
	}
	add("/v1", "stream", "sim/plain", nil, text)
	add("/v1", "stream", "sim/plain", withUsage, text)
	add("/v1", "create", "sim/tools", withTools, called)
	add("/v1", "stream", "sim/tools", withTools, called)
	add("/v1", "models", "", nil, map[string]any{"@this": []any{"sim/plain", "sim/tools"}})
	for i, got := range callModels(t, orders...) {
		what := fmt.Sprintf("%s %s: %+v", orders[i].Op, orders[i].Base, got)
		require.Nil(t, got.failure, what)
		for path, want := range wants[i] {
			require.Equal(t, want, got.final.Get(path).Value(), "%s %s", path, what)
		}
		_, usage := orders[i].Body["stream_options"]
		for _, chunk := range got.events {
			require.True(t, usage || !gjson.Get(chunk, "usage").IsObject(), "nobody asked for it: %s", chunk)
		}
		require.Equal(t, orders[i].Op == "create" || usage, got.final.Get("usage.total_tokens").Int() > 0, what)
	}
}

// TestChatClientErrors compares the errors of Weir with the classes that the npm package has for them.
func TestChatClientErrors(t *testing.T) {
	t.Parallel()
	provider := llm.New(t, llm.Config{Key: providerKey})
	w := serveChat(t, t.TempDir(), chatConfig(t, provider,
		"budgets:\n  poor: {per: [model], models: [sim/poor], tokens: 1}\n  busy: {per: [model], models: [sim/busy], window: 8760h, requests: 1}\n"))
	require.Nil(t, callModel(t, modelOrder{Client: chatClient, Op: "create"}.asking(w, "sim/busy", nil)).failure, "the first one has room")
	cases := []struct {
		model, class string
		status       int
		code         schemas.Code
		word         string
	}{
		{"sim/plain", "BadRequestError", http.StatusBadRequest, schemas.ValidationError, "validation_error"}, // by a member that it does not have
		{"sim/poor", "APIError", http.StatusPaymentRequired, schemas.BudgetExhausted, "insufficient_quota"},
		{"nobody/has-it", "NotFoundError", http.StatusNotFound, schemas.ModelNotFound, "model_not_found"},
		{"sim/busy", "RateLimitError", http.StatusTooManyRequests, schemas.RateLimited, "rate_limit_exceeded"},
		{"sim/status-429", "RateLimitError", http.StatusTooManyRequests, schemas.ModelFailed, "rate_limit_exceeded"},
		{"sim/html-502", "InternalServerError", http.StatusBadGateway, schemas.ModelFailed, "model_failed"},
		{"sim/status-401", "InternalServerError", http.StatusBadGateway, schemas.ModelFailed, "model_failed"},
		{"sim/status-422", "UnprocessableEntityError", http.StatusUnprocessableEntity, schemas.ModelFailed, "model_failed"},
		{"sim/reset", "InternalServerError", http.StatusBadGateway, schemas.UpstreamReset, "upstream_reset"},
	}
	var orders []modelOrder
	for _, c := range cases {
		more := map[string]any{}
		if c.model == "sim/plain" {
			more["api_base"] = "http://evil.test"
		}
		for _, op := range []string{"create", "stream"} {
			orders = append(orders, modelOrder{Client: chatClient, Op: op}.asking(w, c.model, more))
		}
	}
	for i, got := range callModels(t, orders...) {
		want, what := cases[i/2], fmt.Sprintf("%s, %s: %+v", cases[i/2].model, orders[i].Op, got.failure)
		require.NotNil(t, got.failure, what)
		require.Equal(t, []any{want.status, want.class, want.word, want.code}, []any{got.failure.Status, got.failure.Name, got.failure.Code, got.failure.Body.Metadata.Code}, what)
	}
}

// TestChatClientAborts leaves in the middle of a stream: the call goes on, unless its request asked for it
// to end.
func TestChatClientAborts(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"", schemas.DisconnectCancel} {
		t.Run("on disconnect "+word, func(t *testing.T) {
			t.Parallel()
			hold := make(chan struct{})
			provider := llm.New(t, llm.Config{Key: providerKey, Default: llm.Act{Texts: []string{"One", " two"}, Hold: hold}})
			w := serveChat(t, t.TempDir(), chatConfig(t, provider, ""))
			order := modelOrder{Client: chatClient, Op: "stream", Stop: 2, Headers: map[string]string{"Idempotency-Key": "k"}}.asking(w, "sim/plain", nil)
			if word != "" {
				order.Headers[schemas.HeaderOnDisconnect] = word
			}
			require.Len(t, callModel(t, order).events, 2)
			if word == "" {
				close(hold)
			} else {
				defer close(hold)
			}
			r := provider.WaitRequest(1)
			<-r.Closed()
			require.Equal(t, word != "", r.Cut())

			_, text := w.request(t, http.MethodGet, "/v1/actions?kind=chat", "")
			end := settled(t, w, decode[schemas.Page[schemas.ActionEntry]](t, text).Items[0].ID)
			if word == "" {
				require.Equal(t, schemas.OutcomeSucceeded, end.Outcome)
				return
			}
			require.Equal(t, schemas.OutcomeCanceled, end.Outcome)
			res := decode[schemas.ChatResult](t, string(end.Result))
			require.True(t, res.Partial)
			require.NotNil(t, res.Usage)
			require.True(t, res.Usage.Estimated, "the provider could not tell")
			require.Positive(t, res.Usage.Completion)
		})
	}
}
