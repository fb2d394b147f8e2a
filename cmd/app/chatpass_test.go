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
		"preset", "plugins", "previous_response_id", "file_ids", "Tools", "x-anything",
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

	for _, c := range steering() {
		ask(http.StatusOK, map[bool]string{true: "named/x", false: "all/x"}[len(c.name)%2 == 0], c.member)
		require.Contains(t, string(opened.Ledger()[opened.Hits()-1].Body), c.member)
	}
	hits := opened.Hits()
	for _, member := range []string{`"api_base":"x"`, `"plugins":[{"api_key":"x"}]`, `"tools":[{"type":"web_search","server_url":"x"}]`} {
		ask(http.StatusBadRequest, "all/x", member)
	}
	assert.Equal(t, hits, opened.Hits())
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
}
