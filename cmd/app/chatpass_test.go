package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/llm"
	"weir/schemas"
)

// steering are members by which a tenant would choose a provider, an account, another
// model, a stored object or a tool that the provider performs: what stands in the
// request, the name that opens it, and the pointer of the refusal.
func steering() []struct{ member, name, at string } {
	list := []struct{ member, name, at string }{
		{`"documents":[{"url":"https://example.org"}]`, "documents", "/documents"},
		{`"search_parameters":{"sources":[{"type":"rss","links":["https://example.org"]}]}`, "search_parameters", "/search_parameters"},
		{`"provider":{"order":["a"],"data_collection":"allow"}`, "provider", "/provider"},
		{`"tools":[{"type":"web_search"}]`, "web_search", "/tools/0"},
		{`"tools":[{"type":"function","function":{"name":"f"}},{"vector_store_ids":["vs"],"type":"file_search"}]`, "file_search", "/tools/1"},
		{`"tools":[{"type":"function","function":{"name":"f","run_at":"x"}}]`, "run_at", "/tools/0/function/run_at"},
		{`"audio":{"format":"wav","voice":{"id":"voice_1"}}`, "id", "/audio/voice/id"},
		{`"prediction":{"type":"content","content":[{"type":"file","file":{"file_id":"file-1"}}]}`, "file_id", "/prediction/content/0/file/file_id"},
		{`"web_search_options":{"user_location":{"threadId":"t"}}`, "threadId", "/web_search_options/user_location/threadId"},
	}
	for _, name := range []string{
		"preset", "plugins", "model_override", "backup_models", "guardrails", "account_id", "previous_response_id", "route", "thread_id",
		"file_ids", "cached_content", "container", "conversation", "lora", "Tools", "providerOptions", "x-anything",
	} {
		list = append(list, struct{ member, name, at string }{`"` + name + `":["x"]`, name, "/" + name})
	}
	return list
}

func completionWith(model, member string) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"}],%s}`, model, member)
}

// TestPassOpensMembers: what chooses a provider or a model is refused by its name before anything is stored or sent.
// Where an upstream passes a member, the member reaches it as it came; what chooses where a call goes reaches nobody. A
// request goes only to upstreams that pass all its members, whatever their order.
func TestPassOpensMembers(t *testing.T) {
	t.Parallel()
	var names []string
	for _, c := range steering() {
		names = append(names, c.name)
	}
	quoted, err := json.Marshal(names)
	require.NoError(t, err)
	closed, opened, first := llm.New(t, llm.Config{}), llm.New(t, llm.Config{}), llm.New(t, llm.Config{})
	second := llm.New(t, llm.Config{Default: llm.Act{Fault: llm.Status(http.StatusServiceUnavailable)}})
	a := newApp(t, withTokens+fmt.Sprintf(`models:
  m/*: {url: %q, model: real}
  named/*: {url: %q, model: real, pass: %s}
  all/*: {url: %q, model: real, pass: "*"}
  pair: {upstreams: [{name: first, url: %q}, {name: second, url: %q, pass: [plugins, provider]}]}
`, closed.URL(), opened.URL(), quoted, opened.URL(), first.URL(), second.URL()))
	admin := a.admin(t)
	ask := func(want int, model, member string) string {
		t.Helper()
		status, body, _ := admin.do(t, http.MethodPost, schemas.RouteChat, completionWith(model, member))
		require.Equal(t, want, status, "%s: %s", member, body)
		return body
	}
	for _, c := range steering() {
		body := ask(http.StatusBadRequest, "m/x", c.member)
		assert.Contains(t, body, string(schemas.ValidationError), c.member)
		why := "no upstream of this model passes " + c.name + "; leave it out"
		if c.name == "web_search" || c.name == "file_search" {
			why = "the provider performs the tool " + c.name + " itself, and no upstream of this model passes it; turn it off in the client"
		}
		assert.Contains(t, body, fmt.Sprintf(`at %s: %s, or have the operator write models.\"m/*\".pass: [%s]`, c.at, why, c.name))
	}
	_, body, _ := admin.do(t, http.MethodGet, "/v1/actions?kind=chat", "")
	assert.Contains(t, body, `"items":[]`, "nothing is stored")
	assert.Zero(t, closed.Hits(), "and nothing is sent")

	for _, model := range []string{"named/x", "all/x"} {
		for _, c := range steering() {
			ask(http.StatusOK, model, c.member)
			require.Contains(t, string(opened.Ledger()[opened.Hits()-1].Body), c.member)
		}
		hits := opened.Hits()
		for _, member := range []string{`"api_base":"x"`, `"plugins":[{"api_key":"x"}]`, `"engine":"x"`, `"tools":[{"type":"web_search","server_url":"x"}]`, `"preset":{"a":"https://h"}`} {
			ask(http.StatusBadRequest, model, member)
		}
		assert.Equal(t, hits, opened.Hits())
	}
	warned := strings.Join(a.warnings(a.cfg), "\n") + strings.Join(a.cfg.Warnings(), "\n")
	for _, model := range []string{`"named/*"`, `"all/*"`} {
		assert.Contains(t, warned, "models."+model+".pass")
	}
	_, body, _ = admin.do(t, http.MethodGet, "/v1/policy", "")
	assert.Regexp(t, `"name":"model:all:any"[^}]*"pass":\["\*"\]`, body)

	ask(http.StatusBadGateway, "pair", `"plugins":[]`)
	assert.Equal(t, []int{0, 1}, []int{first.Hits(), second.Hits()}, "the one that fails has no other behind it")
	assert.Contains(t, ask(http.StatusBadRequest, "pair", `"plugins":[],"preset":"x"`), "models.pair.upstreams[0].pass: [plugins, preset]")
	ask(http.StatusOK, "pair", `"top_k":1`)
	assert.Equal(t, 1, first.Hits())

	// What the usual clients send passes, the turn after an answer too.
	for _, body := range map[string]string{
		"openai": `"audio":{"format":"wav","voice":"alloy"},"frequency_penalty":0,"logit_bias":{"1":-1},"logprobs":true,"max_completion_tokens":9,"metadata":{"file_id":"f"},
			"modalities":["text"],"moderation":{"model":"omni"},"n":1,"parallel_tool_calls":true,"prediction":{"type":"content","content":"x"},"presence_penalty":0,"prompt_cache_key":"k",
			"prompt_cache_options":{"mode":"implicit"},"prompt_cache_retention":"24h","reasoning_effort":"low","response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,
			"schema":{"type":"object","properties":{"file_id":{}}}}},"safety_identifier":"s","seed":1,"service_tier":"auto","stop":["x"],"store":true,"stream_options":{"include_usage":true},
			"temperature":1,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}},
			"tools":[{"type":"function","function":{"name":"f","description":"d","strict":true,"parameters":{"properties":{"thread_id":{}}}}},{"type":"custom","custom":{"name":"c","format":{"type":"text"}}}],
			"top_logprobs":1,"top_p":1,"user":"u","verbosity":"low","web_search_options":{"search_context_size":"low","user_location":{"type":"approximate","approximate":{"country":"NO"}}}`,
		"second turn": `"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}},{"type":"image_url","image_url":{"url":"https://example.org/a.png"}},
			{"type":"input_audio","input_audio":{"data":"AA==","format":"wav"}},{"type":"file","file":{"filename":"f","file_data":"data:application/pdf;base64,AA=="}}]},
			{"role":"assistant","content":null,"refusal":null,"annotations":[{"type":"url_citation","url_citation":{"url":"https://h"}}],"audio":{"id":"audio_1"},"parsed":{"file_id":1},
			"reasoning":"r","reasoning_content":"r","reasoning_details":[{"type":"reasoning.text","text":"t","signature":"s"}],"thinking_blocks":[{"type":"thinking","signature":"s"}],
			"provider_specific_fields":{"refusal":null},"tool_calls":[{"id":"c","type":"function","index":0,"function":{"name":"f","arguments":"{}","parsed_arguments":{"file_id":2}}}]},
			{"role":"tool","tool_call_id":"c","name":"f","content":[{"type":"text","text":"ok"}]}]`,
		"servers": `"top_k":1,"min_p":0.1,"top_a":0.1,"repetition_penalty":1,"reasoning":{"effort":"low"},"thinking":{"type":"enabled","budget_tokens":9},"chat_template_kwargs":{"enable_thinking":false},
			"include_reasoning":true,"transforms":["middle-out"],"usage":{"include":true},"cache_control":{"type":"ephemeral"},"stop_token_ids":[1],"guided_json":{"properties":{"file_id":{}}},"best_of":1`,
		"older": `"functions":[{"name":"f","parameters":{}}],"function_call":{"name":"f"},"max_tokens":9`,
	} {
		text := completionWith("m/x", body)
		if strings.HasPrefix(body, `"messages"`) {
			text = `{"model":"m/x",` + body + `}`
		}
		admin.does(t, http.StatusOK, http.MethodPost, schemas.RouteChat, text)
	}
}
