package app

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/config"
	"weir/processors/guard"
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
	}, guard.Scope{Agent: true})
	return d
}

const twoAgents = `
agents:
  A: {url: "http://127.0.0.1:9001/", mode: sync, timeout: 3s}
  B: {url: "https://b.example/x", token: "${secret:NOWHERE}", concurrency: 7}
`

// TestAgentsInForce: what is known of an agent is what its policy entry lets pass.
func TestAgentsInForce(t *testing.T) {
	t.Parallel()
	s := newSite(t, allowing()+twoAgents, false)
	a, ok := s.agent("A")
	require.True(t, ok)
	assert.Equal(t, schemas.Agent{TaskType: "A", URL: "http://127.0.0.1:9001", Mode: schemas.AgentSync, Timeout: 3 * time.Second, Concurrency: 32}, a)
	b, ok := s.agent("B")
	require.True(t, ok)
	assert.Equal(t, schemas.Agent{TaskType: "B", URL: "https://b.example/x", Mode: schemas.AgentAuto, Concurrency: 7}, b)
	for task, served := range map[string]bool{"A": true, "B": true, "C": false, "": false, schemas.TaskEcho: false, "agent:A": false} {
		assert.Equal(t, served, s.serves(task), task)
		assert.Equal(t, served, s.runsOf(t, task).Allowed, task)
	}
	status, body, _ := s.ask(t, http.MethodPost, "/v1/execute", `{"method":"POST","url":"http://127.0.0.1:9001/agents/run/sync","allowlist_key":"agent:A","body":{}}`)
	assert.Equal(t, http.StatusForbidden, status, body)
	assert.Contains(t, body, "DENY_KEY_UNKNOWN")

	status, body, _ = s.ask(t, http.MethodGet, "/v1/policy", "")
	require.Equal(t, http.StatusOK, status)
	assert.Contains(t, body, `"name":"agent:B"`)
	assert.Contains(t, body, `"agent":true`)
	assert.NotContains(t, body, "NOWHERE")
	_, body, _ = s.ask(t, http.MethodPost, "/v1/policy/explain", `{"method":"POST","url":"https://b.example/x/agents/run/sync"}`)
	assert.NotContains(t, body, "agent:")
	warned := strings.Join(s.warnings(s.reload.last), "\n")
	assert.Contains(t, warned, "agent B: token: ")
	assert.Contains(t, warned, "NOWHERE")
	assert.NotContains(t, warned, "agent A")
}

// TestReloadOfAgents: they come, change and go with the policy, as a whole.
func TestReloadOfAgents(t *testing.T) {
	t.Parallel()
	s := newSite(t, allowing(), false)
	none := s.policyView(nil, true).Version
	assert.False(t, s.serves("A"))

	s.write(t, allowing()+twoAgents)
	done := s.reloaded(t)
	assert.True(t, done.Changed)
	assert.NotEqual(t, none, done.Version)
	assert.True(t, s.serves("A"))
	assert.True(t, s.runsOf(t, "A").Allowed)
	assert.Contains(t, s.said.String(), "agent B: token: ")
	assert.NotContains(t, s.said.String(), "restart", "agents need none")

	s.write(t, allowing()+strings.ReplaceAll(twoAgents, "timeout: 3s", "timeout: 4s"))
	again := s.reloaded(t)
	assert.True(t, again.Changed, "an agent is called in another way")
	assert.Equal(t, done.Version, again.Version, "though the same is permitted")
	a, _ := s.agent("A")
	assert.Equal(t, 4*time.Second, a.Timeout)
	assert.False(t, s.reloaded(t).Changed)

	s.write(t, allowing()+strings.ReplaceAll(twoAgents, "url: \"https://b.example/x\"", "url: \"b.example\"")+"  C: {url: \"https://c.example\"}\n")
	status, body, _ := s.ask(t, http.MethodPost, "/v1/policy/reload", "")
	require.Equal(t, http.StatusUnprocessableEntity, status, body)
	assert.Contains(t, body, "agents.B.url")
	assert.False(t, s.serves("C"), "a mistake changes nothing")
	assert.True(t, s.serves("B"))
	assert.Equal(t, done.Version, s.policyView(nil, true).Version)

	s.write(t, allowing()+strings.ReplaceAll(twoAgents, "  A:", "  C:"))
	s.reloaded(t)
	assert.False(t, s.serves("A"))
	assert.True(t, s.serves("C"))
	assert.Equal(t, schemas.DenyKeyUnknown, s.runsOf(t, "A").Code)

	s.write(t, allowing())
	assert.Equal(t, none, s.reloaded(t).Version)
	assert.False(t, s.serves("B"))
}

// TestRefreshOfAgents: a watched file with another agent in it is taken, and only
// once, where the policy's version is the same.
func TestRefreshOfAgents(t *testing.T) {
	t.Parallel()
	s := newSite(t, allowing()+twoAgents, false)
	s.write(t, allowing()+strings.ReplaceAll(twoAgents, "concurrency: 7", "concurrency: 8"))
	for range 2 {
		s.refresh(t.Context())
		b, _ := s.agent("B")
		assert.Equal(t, 8, b.Concurrency)
	}
	_, body, _ := s.ask(t, http.MethodGet, "/metrics", "")
	assert.True(t, strings.Contains(body, `weir_policy_reloads_total{result="ok"} 1`+"\n")) //nolint:testifylint // the body is long
}

// TestRevokedBeforeItBegins: a run that was let pass and has not begun is asked
// about again under the agents that are in force then.
func TestRevokedBeforeItBegins(t *testing.T) {
	t.Parallel()
	s := newSite(t, allowing()+twoAgents, false)
	call := schemas.HTTPCall{Method: http.MethodPost, URL: "http://127.0.0.1:9001/agents/run/sync", AllowlistKey: "agent:A", Body: json.RawMessage("{}")}
	pass, d := s.guard.Check(call, guard.Scope{Agent: true})
	require.True(t, d.Allowed, d.Reason)
	s.write(t, allowing()+strings.ReplaceAll(twoAgents, "9001", "9002"))
	s.reloaded(t)
	renewed, d := s.guard.Renew(pass)
	assert.False(t, renewed.Valid())
	assert.Equal(t, schemas.DenyPort, d.Code)
	assert.Equal(t, "agent:A", d.Entry)
}

// TestNoAgentsBeforeAPolicy: an App that has no policy yet serves nothing.
func TestNoAgentsBeforeAPolicy(t *testing.T) {
	t.Parallel()
	assert.False(t, (&App{}).serves("A"))
}

// TestExampleStarts: the file that shows every key is one to begin with.
func TestExampleStarts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "weir.example.yaml"))
	require.NoError(t, err)
	c, err := config.Parse("weir.example.yaml", text, nil, map[string]string{"listen": "127.0.0.1:0", "data": t.TempDir(), "log.durability": "process"})
	require.NoError(t, err)
	a, err := New(t.Context(), Options{Config: c, Log: io.Discard})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, a.Stop(context.WithoutCancel(t.Context()))) })
	for task := range maps.Keys(c.Agents) {
		assert.True(t, a.serves(task), task)
	}
	assert.NotEmpty(t, c.Agents)
	for name := range maps.Keys(c.Models) {
		_, _, known := a.models().Find(strings.ReplaceAll(name, "*", "any"))
		assert.True(t, known, name)
	}
	assert.NotEmpty(t, c.Models)
}
