package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/config"
	"weir/internal/weirtest/agent"
)

// TestARunThatOutlastsTheDrain: a node that stops waits as long as workers.drain
// says. A run that is not over by then loses its agent, and the next node ends it
// as unknown without asking the agent again.
func TestARunThatOutlastsTheDrain(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	double := agent.New(t, agent.Config{Script: []agent.Act{{Hold: hold}}})
	t.Cleanup(func() { close(hold) })
	text := fmt.Sprintf("listen: 127.0.0.1:0\ndata: %q\nlog: {durability: process}\nworkers: {drain: 1s}\nagents: {%s: {url: %q}}\n",
		t.TempDir(), agent.TaskType, double.URL())
	cfg, err := config.Parse("test", []byte(text), nil, nil)
	require.NoError(t, err)
	begin := func() *App {
		a, err := New(t.Context(), Options{Config: cfg, Log: io.Discard})
		require.NoError(t, err)
		require.NoError(t, a.Start(t.Context()))
		return a
	}
	first := begin()
	status, body, _ := first.ask(t, http.MethodPost, "/agents/run/sync", fmt.Sprintf(`{"request_id":"r1","task_type":%q}`, agent.TaskType), "Prefer", "respond-async")
	require.Equal(t, http.StatusAccepted, status, body)
	double.WaitRun(1)
	require.NoError(t, first.Stop(context.WithoutCancel(t.Context())))

	second := begin()
	defer func() { assert.NoError(t, second.Stop(context.WithoutCancel(t.Context()))) }()
	status, body, _ = second.ask(t, http.MethodPost, "/agents/run/sync", fmt.Sprintf(`{"request_id":"r1","task_type":%q}`, agent.TaskType))
	require.Equal(t, http.StatusOK, status, body)
	assert.Contains(t, body, `"code":"OUTCOME_UNKNOWN"`)
	assert.Equal(t, 1, double.Hits())
}

// TestNoRunIsLongerThanTheHistory: what would be forgotten before it ends, or soon
// after, is refused.
func TestNoRunIsLongerThanTheHistory(t *testing.T) {
	t.Parallel()
	a := newApp(t, "log: {durability: process, history: 1h}\n")
	const run = `{"request_id":"r1","task_type":"ECHO","budgets":{"timeout_ms":%d}}`
	status, body, _ := a.ask(t, http.MethodPost, "/agents/run/sync", fmt.Sprintf(run, 3_000_001))
	require.Equal(t, http.StatusUnprocessableEntity, status, body)
	assert.Contains(t, body, "from 1 to 3000000")
	status, body, _ = a.ask(t, http.MethodPost, "/agents/run/sync", fmt.Sprintf(run, 3_000_000))
	assert.Equal(t, http.StatusOK, status, body)
}
