//go:build e2e

package integration_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"weir/internal/weirtest/llm"
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
	w := serveChat(t, chatConfig(t, provider, ""))
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
