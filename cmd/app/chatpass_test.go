package app

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	span "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"weir/internal/models"
	"weir/internal/policy/evaluate"
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

	ask(http.StatusServiceUnavailable, "pair", `"plugins":[]`)
	assert.Equal(t, []int{0, 1}, []int{first.Hits(), second.Hits()}, "the one that fails has no other behind it")
	assert.Contains(t, ask(http.StatusBadRequest, "pair", `"plugins":[],"preset":"x"`), "models.pair.upstreams[0].pass: [plugins, preset]")
	ask(http.StatusOK, "pair", `"top_k":1`)
	assert.Equal(t, 1, first.Hits())
}

// runsOf asks the guard about a run of an agent, as whoever calls it does.
func (s *site) runsOf(t *testing.T, task string) schemas.Decision {
	t.Helper()
	agent, ok := s.agent(task)
	if !ok {
		agent.URL = "http://127.0.0.1:1"
	}
	_, d := s.guard.Check(schemas.HTTPCall{
		Method: http.MethodPost, URL: agent.URL + schemas.RouteRunStream, AllowlistKey: schemas.AgentEntry(task), Body: json.RawMessage("{}"),
	}, evaluate.Scope{Agent: true})
	return d
}

// completionOf asks the guard about the first call that a completion would make.
func (s *site) completionOf(t *testing.T, model string) schemas.Decision {
	t.Helper()
	candidates := s.models().Candidates([]string{model}, nil, nil, "a")
	require.NotEmpty(t, candidates, model)
	up := candidates[0].Upstream
	_, d := s.guard.Check(schemas.HTTPCall{
		Method: http.MethodPost, URL: up.URL + schemas.RouteChat, AllowlistKey: schemas.ModelEntry(up.Name), Body: json.RawMessage("{}"),
	}, evaluate.Scope{Agent: true, KeyRequired: true})
	return d
}

const agentsAndModels = `
agents:
  A: {url: "http://127.0.0.1:9001/", mode: sync, timeout: 3s}
  B: {url: "https://b.example/x", token: "${secret:NOWHERE}", concurrency: 7}
models:
  fast: {alias: m/one}
  m/*: {url: "http://127.0.0.1:9001/v1", price: {input: 1, output: 2}}
  far: {url: "https://far.example", headers: {Authorization: "Bearer ${secret:NOWHERE}"}}
`

// TestAgentsAndModelsInForce: what is known of them is what their policy entries let pass. They come, change and go with
// the policy, as a whole.
func TestAgentsAndModelsInForce(t *testing.T) {
	t.Parallel()
	early := new(App)
	early.current.Store(&dated{})
	assert.False(t, early.serves("A"), "before there is a policy")
	assert.Empty(t, early.budgets())
	assert.Nil(t, early.models())

	s := newSite(t, allowing())
	none := s.policyView(nil, true).Version
	assert.False(t, s.serves("A"))
	assert.Empty(t, s.models().List(models.Scope{}))
	s.write(t, allowing()+agentsAndModels)
	done := s.reloaded(t)
	assert.True(t, done.Changed)
	assert.NotEqual(t, none, done.Version)
	assert.Contains(t, s.said.String(), "agent B: token: ")
	a, _ := s.agent("A")
	assert.Equal(t, schemas.Agent{TaskType: "A", URL: "http://127.0.0.1:9001", Mode: schemas.AgentSync, Timeout: 3 * time.Second, Concurrency: 32}, a)
	b, _ := s.agent("B")
	assert.Equal(t, schemas.Agent{TaskType: "B", URL: "https://b.example/x", Mode: schemas.AgentAuto, Concurrency: 7}, b)
	for task, served := range map[string]bool{"A": true, "B": true, "C": false, "": false, schemas.TaskEcho: false, "agent:A": false} {
		assert.Equal(t, served, s.serves(task), task)
		assert.Equal(t, served, s.runsOf(t, task).Allowed, task)
	}
	for _, name := range []string{"fast", "m/one", "m/two", "far"} {
		assert.True(t, s.completionOf(t, name).Allowed, name)
	}
	_, _, known := s.models().Find("other")
	assert.False(t, known)
	for key, route := range map[string]string{"agent:A": "/agents/run/sync", "model:m:any": "/v1/chat/completions"} {
		call := `{"method":"POST","url":"http://127.0.0.1:9001` + route + `","allowlist_key":"` + key + `","body":{}}`
		body, _ := s.asks(t, http.StatusForbidden, http.MethodPost, "/v1/execute", call)
		assert.Contains(t, body, "DENY_KEY_UNKNOWN")
	}
	body, _ := s.asks(t, http.StatusOK, http.MethodGet, "/v1/policy", "")
	for _, shown := range []string{`"name":"agent:B"`, `"agent":true`, `"name":"model:far"`, `"headers":["Authorization"]`} {
		assert.Contains(t, body, shown)
	}
	assert.NotContains(t, body, "NOWHERE")
	warned := strings.Join(s.warnings(s.reload.last), "\n")
	for _, told := range []string{"agent B: token: ", "model far: header Authorization: ", "NOWHERE"} {
		assert.Contains(t, warned, told)
	}
	assert.NotRegexp(t, "agent A|model m", warned)
	assert.Empty(t, s.budgets())

	for _, tt := range []struct {
		what, before, after string
		inForce             func() bool
	}{
		{"an agent is called in another way", "timeout: 3s", "timeout: 4s", func() bool { a, _ := s.agent("A"); return a.Timeout == 4*time.Second }},
		{"a model has another price", "input: 1", "input: 3", func() bool { m, _, _ := s.models().Find("fast"); return m.Price.Input == 3_000_000 }},
		{
			"they are asked within other bounds", "\nmodels:", "\nbudgets:\n  daily: {usd: 1.5, window: 24h}\nmodels:",
			func() bool { return len(s.budgets()) == 1 && s.budgets()[0].Nanos == 1_500_000_000 },
		},
	} {
		s.write(t, allowing()+strings.ReplaceAll(agentsAndModels, tt.before, tt.after))
		again := s.reloaded(t)
		assert.True(t, again.Changed, tt.what)
		assert.True(t, tt.inForce(), tt.what)
		assert.Equal(t, done.Version, again.Version, "though the same is permitted")
		assert.False(t, s.reloaded(t).Changed)
	}
	assert.NotContains(t, s.said.String(), "restart", "nothing of them needs one")

	for at, wrong := range map[string][2]string{"agents.B.url": {"https://b.example/x", "b.example"}, "models.far.url": {"https://far.example", "far.example"}} {
		s.write(t, allowing()+strings.ReplaceAll(strings.ReplaceAll(agentsAndModels, wrong[0], wrong[1]), "  A:", "  C:"))
		body, _ := s.asks(t, http.StatusUnprocessableEntity, http.MethodPost, "/v1/policy/reload", "")
		assert.Contains(t, body, at)
		assert.False(t, s.serves("C"), "a mistake changes nothing")
		assert.True(t, s.serves("A"))
		assert.Equal(t, done.Version, s.policyView(nil, true).Version)
	}
	s.write(t, allowing()+strings.ReplaceAll(agentsAndModels, "  A:", "  C:"))
	s.reloaded(t)
	assert.False(t, s.serves("A"))
	assert.True(t, s.serves("C"))
	assert.Equal(t, schemas.DenyKeyUnknown, s.runsOf(t, "A").Code)

	s.write(t, allowing())
	assert.Equal(t, none, s.reloaded(t).Version)
	assert.False(t, s.serves("B"))
	assert.Empty(t, s.models().List(models.Scope{}))
}

// spanned collects spans.
type spanned struct {
	mu  sync.Mutex
	got map[string][]*span.Span // by name
}

func (s *spanned) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	var req collector.ExportTraceServiceRequest
	if err != nil || proto.Unmarshal(data, &req) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rs := range req.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			for _, one := range ss.GetSpans() {
				s.got[one.GetName()] = append(s.got[one.GetName()], one)
			}
		}
	}
}

// TestOneTrace: the request, the action, the call and the stream of events are of the
// caller's trace; the target is told the call's span if its entry says so; and the log's
// message names the request's.
func TestOneTrace(t *testing.T) {
	t.Parallel()
	const trace = "0af7651916cd43dd8448eb211c80319c"
	collected := &spanned{got: map[string][]*span.Span{}}
	sink := httptest.NewServer(collected)
	t.Cleanup(sink.Close)
	told := make(chan string, 2)
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { told <- r.Header.Get("Traceparent") }))
	t.Cleanup(up.Close)
	a := newApp(t, fmt.Sprintf(`log: {durability: process}
telemetry: {otlp: {endpoint: %q}}
models: {small: {url: %[3]q}}
policy:
  allowlist:
    - {name: told, url_prefix: "%[2]s/told", network: loopback, headers: {Traceparent: "${trace}"}}
    - {name: untold, url_prefix: "%[2]s/untold", network: loopback}
`, sink.URL, up.URL, llm.New(t, llm.Config{}).URL()))

	caller := []string{"Traceparent", "00-" + trace + "-b7ad6b7169203331-01"}
	for _, key := range []string{"told", "untold"} {
		body := fmt.Sprintf(`{"method":"GET","url":"%s/%s","allowlist_key":%q,"request_id":%q}`, up.URL, key, key, key)
		a.asks(t, http.StatusOK, http.MethodPost, "/v1/execute", body, caller...)
	}
	a.asks(t, http.StatusOK, http.MethodPost, schemas.RouteChat, `{"model":"small","messages":[{"role":"user","content":"hi"}]}`, caller...)
	header := <-told
	require.Empty(t, <-told, "an entry that does not say so tells nobody")
	text, _ := a.asks(t, http.StatusOK, http.MethodGet, "/v1/actions/told/events", "", append([]string{"Accept", "text/event-stream"}, caller...)...)
	require.Contains(t, text, "settled")
	st, err := a.ledger.Find(t.Context(), "default", "told")
	require.NoError(t, err)
	require.NoError(t, a.Stop(context.WithoutCancel(t.Context())), "which sends what is left")

	collected.mu.Lock()
	defer collected.mu.Unlock()
	for name, list := range collected.got {
		for _, s := range list {
			assert.Equal(t, trace, hex.EncodeToString(s.GetTraceId()), name)
		}
	}
	require.Len(t, collected.got["POST /v1/execute"], 2)
	require.Len(t, collected.got["GET /v1/actions/:id/events"], 1, "%v", collected.got)
	require.Len(t, collected.got["action http"], 2)
	settled := st.Events[slices.IndexFunc(st.Events, func(e schemas.Event) bool { return e.Type == schemas.EventSettled })]
	require.True(t, slices.ContainsFunc(collected.got["action http"], func(s *span.Span) bool {
		return s.GetEndTimeUnixNano() == uint64(settled.Time.UnixNano())
	}), "an action's span ends when it was settled")
	require.Len(t, collected.got["GET"], 2)
	require.Len(t, collected.got["chat small"], 1)
	require.True(t, schemas.ValidTraceParent(header), header)
	called := strings.Split(header, "-")
	require.Equal(t, trace, called[1])
	mine := 0
	for _, s := range collected.got["GET"] {
		if hex.EncodeToString(s.GetSpanId()) == called[2] {
			mine++
		}
	}
	require.Equal(t, 1, mine, "the target was told one of the calls' spans")
	mine = 0
	for _, s := range collected.got["POST /v1/execute"] {
		if strings.Contains(st.Action.TraceParent, hex.EncodeToString(s.GetSpanId())) {
			mine++
		}
	}
	require.Equal(t, 1, mine, "the action is a child of its request")
}
