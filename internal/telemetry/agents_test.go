package telemetry_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"

	"weir/internal/telemetry"
)

func TestOnlyTheConfigurationsTaskTypesAreNamed(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	m.SetAgents([]string{"SUMMARY", "no task type"})
	m.AgentRuns("SUMMARY", 1)
	m.AgentRuns(canary, 1)
	m.AgentBreaker("SUMMARY", true)
	m.SetAgents([]string{"OTHER"})
	m.AgentRuns("SUMMARY", -1)
	page := scrape(t, m)
	assert.Equal(t, "0", page[`weir_agent_runs{task_type="SUMMARY"}`], "a run leaves the gauge that it entered")
	assert.Equal(t, "0", page[`weir_agent_runs{task_type="OTHER"}`])
	assert.Equal(t, "1", page[`weir_agent_runs{task_type="other"}`], "what the configuration never named is no label")
	assert.Equal(t, "1", page[`weir_agent_breaker_open{task_type="SUMMARY"}`])
	assert.NotContains(t, page, `weir_agent_runs{task_type="`+canary+`"}`)

	many := make([]string, 200)
	for i := range many {
		many[i] = fmt.Sprintf("T%d", i)
	}
	m.SetAgents(many)
	page = scrape(t, m)
	assert.Contains(t, page, `weir_agent_runs{task_type="T97"}`)
	assert.NotContains(t, page, `weir_agent_runs{task_type="T98"}`, "with the two before, a hundred")
}

func TestTheLogNamesOnlyTaskTypesOfTheConfiguration(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	var out bytes.Buffer
	log := m.NewLogger(&out, "info", telemetry.FormatJSON)
	m.SetAgents([]string{"SUMMARY"})
	for _, task := range []string{"ECHO", "SUMMARY", canary} {
		log.Info("run", slog.String("task_type", task))
	}
	assert.Contains(t, out.String(), `"task_type":"ECHO"`)
	assert.Contains(t, out.String(), `"task_type":"SUMMARY"`)
	assert.NotContains(t, out.String(), canary)
}
