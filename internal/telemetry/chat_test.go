package telemetry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"weir/internal/telemetry"
	"weir/schemas"
)

const chatLabels = `gen_ai_operation_name="chat",gen_ai_provider_name="%s",gen_ai_request_model="%s"`

func models() []schemas.Model {
	return []schemas.Model{
		{Name: "small", Upstreams: []schemas.ModelUpstream{{Name: "here"}, {Name: "there"}}},
		{Name: "openai/*", Upstreams: []schemas.ModelUpstream{{Name: "openai"}}},
		{Name: "openai/old/*", Upstreams: []schemas.ModelUpstream{{Name: "old"}}},
		{Name: "quick", Alias: "small"},
	}
}

func TestEveryModelOfTheConfigurationStartsAtZero(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	before := scrape(t, m)
	assert.Equal(t, "0", before[`weir_chat_refused_total{budget="task"}`])
	m.SetModels(models())
	m.SetBudgets([]schemas.Budget{{Name: "daily"}})
	page := scrape(t, m)
	for _, p := range [][2]string{{"here", "small"}, {"there", "small"}, {"openai", "openai/*"}, {"old", "openai/old/*"}} {
		labels := fmt.Sprintf(chatLabels, p[0], p[1])
		for _, series := range []string{
			"gen_ai_client_token_usage_count{" + labels + `,gen_ai_token_type="input"}`,
			"gen_ai_client_token_usage_count{" + labels + `,gen_ai_token_type="output"}`,
			`gen_ai_client_operation_duration_seconds_count{error_type="",` + labels + "}",
			"gen_ai_server_time_to_first_token_seconds_count{" + labels + "}",
			fmt.Sprintf(`weir_chat_cost_usd_total{gen_ai_provider_name="%s",gen_ai_request_model="%s"}`, p[0], p[1]),
		} {
			assert.Equal(t, "0", page[series], series)
		}
	}
	assert.Equal(t, "0", page[`weir_chat_refused_total{budget="daily"}`])
}

func TestACallOfAModelIsRecordedUnderItsNameInTheConfiguration(t *testing.T) {
	t.Parallel()
	usage := &schemas.ChatUsage{Prompt: 100, Completion: 20, Total: 120, Nanos: 2_500_000_000, Priced: true}
	for name, tt := range map[string]struct {
		audit schemas.ChatAudit
		code  schemas.Code
		want  string // the labels
		err   string
	}{
		"an exact name":            {schemas.ChatAudit{Asked: "quick", Model: "small", Upstream: "there"}, "", fmt.Sprintf(chatLabels, "there", "small"), ""},
		"a pattern by its name":    {schemas.ChatAudit{Model: "openai/*", Upstream: "openai"}, "", fmt.Sprintf(chatLabels, "openai", "openai/*"), ""},
		"what a pattern stood for": {schemas.ChatAudit{Model: "openai/gpt", Upstream: "openai"}, "", fmt.Sprintf(chatLabels, "openai", "openai/*"), ""},
		"the longest pattern":      {schemas.ChatAudit{Model: "openai/old/" + canary, Upstream: "old"}, "", fmt.Sprintf(chatLabels, "old", "openai/old/*"), ""},
		"a failure":                {schemas.ChatAudit{Model: "small", Upstream: "here"}, schemas.UpstreamTimeout, fmt.Sprintf(chatLabels, "here", "small"), "UPSTREAM_TIMEOUT"},
		"a rare failure":           {schemas.ChatAudit{Model: "small", Upstream: "here"}, schemas.UpstreamTLS, fmt.Sprintf(chatLabels, "here", "small"), "other"},
		"an unknown failure":       {schemas.ChatAudit{Model: "small", Upstream: "here"}, canary, fmt.Sprintf(chatLabels, "here", "small"), "other"},
		"no such model":            {schemas.ChatAudit{Model: canary, Upstream: "here"}, "", fmt.Sprintf(chatLabels, "other", "other"), ""},
		"another's upstream":       {schemas.ChatAudit{Model: "small", Upstream: "openai"}, "", fmt.Sprintf(chatLabels, "other", "other"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := telemetry.NewMetrics()
			m.SetModels(models())
			tt.audit.Usage, tt.audit.DurationMS, tt.audit.FirstMS = usage, 1500, 250
			m.ChatCalled(tt.audit, tt.code)
			page := scrape(t, m)
			assert.Equal(t, "100", page["gen_ai_client_token_usage_sum{"+tt.want+`,gen_ai_token_type="input"}`])
			assert.Equal(t, "20", page["gen_ai_client_token_usage_sum{"+tt.want+`,gen_ai_token_type="output"}`])
			assert.Equal(t, "1.5", page[fmt.Sprintf(`gen_ai_client_operation_duration_seconds_sum{error_type=%q,%s}`, tt.err, tt.want)])
			assert.Equal(t, "0.25", page["gen_ai_server_time_to_first_token_seconds_sum{"+tt.want+"}"])
			var cost []string
			for series, value := range page {
				assert.NotContains(t, series, canary)
				if strings.HasPrefix(series, "weir_chat_cost_usd_total{") && value != "0" {
					cost = append(cost, value)
				}
			}
			assert.Equal(t, []string{"2.5"}, cost, "of one series")
		})
	}
}

// TestAModelHasFewSeries: however its calls fail.
func TestAModelHasFewSeries(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	m.SetModels(models())
	usage := &schemas.ChatUsage{Prompt: 1, Completion: 1, Total: 2, Nanos: 1, Priced: true}
	for _, code := range append(schemas.SettleCodes(), schemas.DoorCodes()...) {
		m.ChatCalled(schemas.ChatAudit{Model: "small", Upstream: "here", DurationMS: 1, FirstMS: 1, Usage: usage}, code)
	}
	n := 0
	for series := range scrape(t, m) {
		if strings.Contains(series, `"here"`) {
			n++
		}
	}
	assert.LessOrEqual(t, n, 200)
	assert.Greater(t, n, 150, "each failure that is named")
}

func TestWhatACallDidNotHaveIsNotRecorded(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	m.ChatCalled(schemas.ChatAudit{Model: "early", Upstream: "here"}, "") // before any configuration
	m.SetModels(models())
	m.ChatCalled(schemas.ChatAudit{Model: "small", Upstream: "here", DurationMS: 7}, schemas.UpstreamConnect)
	m.ChatCalled(schemas.ChatAudit{Model: "small", Upstream: "here", Usage: &schemas.ChatUsage{Prompt: 1, Nanos: 5}}, "")
	page := scrape(t, m)
	labels := fmt.Sprintf(chatLabels, "here", "small")
	assert.Equal(t, "0", page["gen_ai_server_time_to_first_token_seconds_count{"+labels+"}"], "nothing came")
	assert.Equal(t, "1", page["gen_ai_client_token_usage_count{"+labels+`,gen_ai_token_type="input"}`], "one call used something")
	assert.Equal(t, "0", page[`weir_chat_cost_usd_total{gen_ai_provider_name="here",gen_ai_request_model="small"}`], "it has no price")
	assert.Equal(t, "1", page[`gen_ai_client_operation_duration_seconds_count{error_type="",`+fmt.Sprintf(chatLabels, "other", "other")+"}"])
}

func TestTheModelsAndBudgetsOfALifeAreBounded(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	var many []schemas.Model
	var budgets []schemas.Budget
	for i := range 300 {
		many = append(many, schemas.Model{Name: fmt.Sprintf("m%d", i), Upstreams: []schemas.ModelUpstream{{Name: fmt.Sprintf("u%d", i)}}})
		budgets = append(budgets, schemas.Budget{Name: fmt.Sprintf("b%d", i)})
	}
	m.SetModels(many)
	m.SetBudgets(budgets)
	m.SetModels(many[100:])
	m.ChatCalled(schemas.ChatAudit{Model: "m5", Upstream: "u5", DurationMS: 1}, "")
	m.ChatCalled(schemas.ChatAudit{Model: "m250", Upstream: "u250", DurationMS: 1}, "")
	m.ChatRefused("b99")
	m.ChatRefused("b100")
	m.ChatRefused(schemas.BudgetOfTask)
	page := scrape(t, m)
	other := `gen_ai_client_operation_duration_seconds_count{error_type="",` + fmt.Sprintf(chatLabels, "other", "other") + "}"
	assert.Equal(t, "2", page[other], "one is not configured any more, the other came too late for a name")
	assert.Contains(t, page, `gen_ai_server_time_to_first_token_seconds_count{`+fmt.Sprintf(chatLabels, "u199", "m199")+"}")
	assert.NotContains(t, page, `gen_ai_server_time_to_first_token_seconds_count{`+fmt.Sprintf(chatLabels, "u200", "m200")+"}")
	assert.Equal(t, "1", page[`weir_chat_refused_total{budget="b99"}`])
	assert.Equal(t, "1", page[`weir_chat_refused_total{budget="other"}`])
	assert.Equal(t, "1", page[`weir_chat_refused_total{budget="task"}`])
}
