package app

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/agent"
)

// TestARunThatOutlastsTheDrain: a node that stops waits as long as workers.drain
// says. A run that is not over by then loses its agent, and the next node ends it
// as unknown without asking the agent again. What would be forgotten before it ends
// is refused.
func TestARunThatOutlastsTheDrain(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	double := agent.New(t, agent.Config{Script: []agent.Act{{Hold: hold}}})
	t.Cleanup(func() { close(hold) })
	dir := t.TempDir()
	extra := fmt.Sprintf("log: {durability: process, history: 1h}\nworkers: {drain: 1s}\nagents: {%s: {url: %q}}\n", agent.TaskType, double.URL())
	run := fmt.Sprintf(`{"request_id":"r1","task_type":%q}`, agent.TaskType)
	first, err := begin(t.Context(), dir, extra)
	require.NoError(t, err)
	status, body, _ := first.ask(t, http.MethodPost, "/agents/run/sync", run, "Prefer", "respond-async")
	require.Equal(t, http.StatusAccepted, status, body)
	double.WaitRun(1)
	require.NoError(t, first.Stop(context.WithoutCancel(t.Context())))

	second, err := begin(t.Context(), dir, extra)
	require.NoError(t, err)
	defer func() { assert.NoError(t, second.Stop(context.WithoutCancel(t.Context()))) }()
	status, body, _ = second.ask(t, http.MethodPost, "/agents/run/sync", run)
	require.Equal(t, http.StatusOK, status, body)
	assert.Contains(t, body, `"code":"OUTCOME_UNKNOWN"`)
	assert.Equal(t, 1, double.Hits())
	status, body, _ = second.ask(t, http.MethodPost, "/agents/run/sync", `{"request_id":"r2","task_type":"ECHO","budgets":{"timeout_ms":3000001}}`)
	require.Equal(t, http.StatusUnprocessableEntity, status, body)
	assert.Contains(t, body, "from 1 to 3000000")
}
