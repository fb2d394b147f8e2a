package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/models"
	"weir/internal/policy/evaluate"
	"weir/schemas"
)

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
	assert.False(t, (&App{}).serves("A"), "before there is a policy")
	assert.Empty(t, (&App{}).budgets())
	assert.Nil(t, (&App{}).models())

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
	for _, url := range []string{"https://b.example/x/agents/run/sync", "https://far.example/chat/completions"} {
		_, body, _ = s.ask(t, http.MethodPost, "/v1/policy/explain", `{"method":"POST","url":"`+url+`"}`)
		assert.NotRegexp(t, "agent:|model:", body)
	}
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
