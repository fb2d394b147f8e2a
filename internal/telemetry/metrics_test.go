package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/telemetry"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// scrape returns the lines of the exposition, comments left out, as series → value.
func scrape(t *testing.T, m *telemetry.Metrics) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code)
	series := map[string]string{}
	for line := range strings.Lines(w.Body.String()) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		series[line[:i]] = line[i+1:]
	}
	return series
}

// count is how many series have a text in their name or labels.
func count(t *testing.T, m *telemetry.Metrics, text string) (n int) {
	t.Helper()
	for series := range scrape(t, m) {
		if strings.Contains(series, text) {
			n++
		}
	}
	return n
}

func TestClosedVocabulariesStartAtZero(t *testing.T) {
	t.Parallel()
	series := scrape(t, telemetry.NewMetrics())
	kinds, codes := texts(schemas.Kinds()), texts(schemas.SettleCodes())
	for format, values := range map[string][]string{
		"weir_actions_accepted_total{kind=%q}":                   kinds,
		"weir_redeliveries_total{kind=%q}":                       kinds,
		"weir_actions_overdue_total{kind=%q}":                    kinds,
		"weir_actions_settled_total{kind=\"run\",outcome=%q}":    texts(schemas.Outcomes()),
		"weir_actions_settled_code_total{code=%q,kind=\"http\"}": codes,
		"weir_actions_settled_total{kind=%q,outcome=\"failed\"}": kinds,
		"weir_requests_refused_total{code=%q}":                   texts(schemas.IngressCodes()),
		"weir_policy_denials_total{code=%q}":                     texts(schemas.DenyCodes()),
		"weir_attempts_total{code=%q}":                           append(texts(schemas.UpstreamCodes()), telemetry.CodeOK),
		"weir_dead_letters_total{code=%q}":                       append(codes, string(schemas.Internal)),
		"weir_evidence_records_total{kind=%q}":                   {schemas.EvidenceAttempt, schemas.EvidenceConnector, schemas.EvidenceDecision},
		"%s": {
			"weir_pull_heartbeats_missed_total", "weir_sse_streams", "weir_startup_duration_seconds",
			"weir_log_dropped_attributes_total", "weir_log_redacted_messages_total",
		},
	} {
		for _, value := range values {
			name := fmt.Sprintf(format, value)
			require.Equal(t, "0", series[name], name)
		}
	}
	require.Contains(t, series, "go_goroutines")
	require.Contains(t, series, "process_start_time_seconds")
}

func texts[T ~string](of []T) (all []string) {
	for _, s := range of {
		all = append(all, string(s))
	}
	return all
}

// Each call moves the series named, and no other of Weir's.
func TestEachMethodMovesItsSeries(t *testing.T) {
	t.Parallel()
	const retries = `executor_http_retry_total{attempt_number="%s",host="%s",method="%s",retry_kind="%s",retry_status="%s"}`
	type testCase struct {
		call func(m *telemetry.Metrics)
		want map[string]string
	}
	table.Run(t, map[string]testCase{
		"accepted":        {func(m *telemetry.Metrics) { m.Accepted(schemas.KindHTTP) }, one(`weir_actions_accepted_total{kind="http"}`)},
		"an unknown kind": {func(m *telemetry.Metrics) { m.Accepted("CANARY") }, one(`weir_actions_accepted_total{kind="other"}`)},
		"refused":         {func(m *telemetry.Metrics) { m.Refused(schemas.LogFull) }, one(`weir_requests_refused_total{code="LOG_FULL"}`)},
		"refused unknown": {func(m *telemetry.Metrics) { m.Refused("CANARY") }, one(`weir_requests_refused_total{code="other"}`)},
		"settled well": {
			func(m *telemetry.Metrics) { m.Settled(schemas.KindPlan, schemas.OutcomeSucceeded, "", 0) },
			observed("weir_action_duration_seconds", `kind="plan",outcome="succeeded"`, one(`weir_actions_settled_total{kind="plan",outcome="succeeded"}`)),
		},
		"settled badly": {
			func(m *telemetry.Metrics) {
				m.Settled(schemas.KindHTTP, schemas.OutcomeFailed, schemas.UpstreamTimeout, 2*time.Hour)
			},
			map[string]string{
				`weir_actions_settled_total{kind="http",outcome="failed"}`: "1", `weir_actions_settled_code_total{code="UPSTREAM_TIMEOUT",kind="http"}`: "1",
				`weir_action_duration_seconds_bucket{kind="http",outcome="failed",le="7200"}`: "1", `weir_action_duration_seconds_bucket{kind="http",outcome="failed",le="86400"}`: "1",
				`weir_action_duration_seconds_bucket{kind="http",outcome="failed",le="+Inf"}`: "1",
				`weir_action_duration_seconds_sum{kind="http",outcome="failed"}`:              "7200", `weir_action_duration_seconds_count{kind="http",outcome="failed"}`: "1",
			},
		},
		"settled unknown": {
			func(m *telemetry.Metrics) { m.Settled("CANARY", "CANARY", "CANARY", -time.Hour) },
			observed("weir_action_duration_seconds", `kind="other",outcome="other"`, one(
				`weir_actions_settled_total{kind="other",outcome="other"}`, `weir_actions_settled_code_total{code="other",kind="other"}`,
			)),
		},
		"denied": {func(m *telemetry.Metrics) { m.Denied(schemas.DenyAddress) }, one(`weir_policy_denials_total{code="DENY_ADDRESS"}`)},
		"a write": {
			func(m *telemetry.Metrics) { m.Answered("executor", "POST", false, 202, 0) },
			observed("weir_request_duration_seconds", `status="2xx",surface="executor",use="write"`, map[string]string{}),
		},
		"a read": {
			func(m *telemetry.Metrics) { m.Answered("actions", "HEAD", false, 499, 0) },
			observed("weir_request_duration_seconds", `status="4xx",surface="actions",use="read"`, map[string]string{}),
		},
		"a stream": {
			func(m *telemetry.Metrics) { m.Answered("chat", "POST", true, 200, 0) },
			observed("weir_request_duration_seconds", `status="2xx",surface="chat",use="stream"`, map[string]string{}),
		},
		"a request unknown": {
			func(m *telemetry.Metrics) { m.Answered("CANARY", "CANARY", false, 1000, 0) },
			observed("weir_request_duration_seconds", `status="other",surface="other",use="write"`, map[string]string{}),
		},
		"built from": {
			func(m *telemetry.Metrics) { m.SetBuild("v1.2.3", "abc") },
			one(fmt.Sprintf("weir_build_info{goversion=%q,revision=\"abc\",version=\"v1.2.3\"}", runtime.Version())),
		},
		"retry": {
			func(m *telemetry.Metrics) {
				m.SetHosts([]string{"localhost"})
				m.Retry("localhost", "GET", 2, "status", "503")
			},
			one(fmt.Sprintf(retries, "2", "localhost", "GET", "status", "503")),
		},
		"retry without a status": {func(m *telemetry.Metrics) { m.Retry("h", "PUT", 1, "timeout", "") }, one(fmt.Sprintf(retries, "1", "other", "PUT", "timeout", ""))},
		"retry hostile": {
			func(m *telemetry.Metrics) { m.Retry("CANARY", "CANARY", -1, "CANARY", "CANARY") },
			one(fmt.Sprintf(retries, "other", "other", "other", "other", "")),
		},
		"a reload":      {func(m *telemetry.Metrics) { m.PolicyReloaded(true) }, one(`weir_policy_reloads_total{result="ok"}`)},
		"a bad reload":  {func(m *telemetry.Metrics) { m.PolicyReloaded(false) }, one(`weir_policy_reloads_total{result="failed"}`)},
		"a shadow":      {func(m *telemetry.Metrics) { m.Shadowed("host:localhost:8080", true) }, one(`weir_policy_shadow_total{entry="host:localhost:8080",would="allow"}`)},
		"an odd shadow": {func(m *telemetry.Metrics) { m.Shadowed("CANARY with a space", false) }, one(`weir_policy_shadow_total{entry="other",would="deny"}`)},
		"a policy": {
			func(m *telemetry.Metrics) {
				m.PolicyInForce("v1", time.Unix(1, 0))
				m.PolicyInForce("v2", time.UnixMilli(2500))
			},
			map[string]string{`weir_policy_info{version="v2"}`: "1", `weir_policy_since_timestamp_seconds`: "2.5"},
		},
		"dead letter": {func(m *telemetry.Metrics) { m.DeadLettered(schemas.Poison) }, one(`weir_dead_letters_total{code="POISON"}`)},
		"redelivered": {func(m *telemetry.Metrics) { m.Redelivered(schemas.KindHTTP) }, one(`weir_redeliveries_total{kind="http"}`)},
		"overdue":     {func(m *telemetry.Metrics) { m.Overdue(schemas.KindRun) }, one(`weir_actions_overdue_total{kind="run"}`)},
		"heartbeat":   {func(m *telemetry.Metrics) { m.HeartbeatMissed() }, one(`weir_pull_heartbeats_missed_total`)},
		"overflowed":  {func(m *telemetry.Metrics) { m.Overflowed(schemas.KindHTTP) }, one(`weir_work_overflowed_total{kind="http"}`)},
		"sse":         {func(m *telemetry.Metrics) { m.SSE(1); m.SSE(1); m.SSE(-1) }, one(`weir_sse_streams`)},
		"evidence":    {func(m *telemetry.Metrics) { m.EvidenceWritten(schemas.EvidenceAttempt) }, one(`weir_evidence_records_total{kind="http.attempt"}`)},
		"startup":     {func(m *telemetry.Metrics) { m.StartupDone(250 * time.Millisecond) }, map[string]string{`weir_startup_duration_seconds`: "0.25"}},
		"barrier": {
			func(m *telemetry.Metrics) { m.Barrier(2 * time.Second) },
			map[string]string{
				`weir_barrier_duration_seconds_count`: "1", `weir_barrier_duration_seconds_sum`: "2", `weir_barrier_duration_seconds_bucket{le="+Inf"}`: "1",
			},
		},
	}, func(t *testing.T, tt testCase) {
		m := telemetry.NewMetrics()
		before := scrape(t, m)
		tt.call(m)
		moved := map[string]string{}
		for series, value := range scrape(t, m) {
			ours := strings.HasPrefix(series, "weir_") || strings.HasPrefix(series, "executor_")
			if old, known := before[series]; ours && value != old && (known || value != "0") {
				moved[series] = value
			}
		}
		require.Equal(t, tt.want, moved)
	})
}

// observed adds a histogram with one observation of zero.
func observed(name, labels string, all map[string]string) map[string]string {
	bounds := []string{"0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "30", "60", "+Inf"}
	if name == "weir_action_duration_seconds" {
		bounds = append(bounds, "300", "1800", "7200", "86400")
	}
	for _, le := range bounds {
		all[fmt.Sprintf("%s_bucket{%s,le=%q}", name, labels, le)] = "1"
	}
	all[name+"_count{"+labels+"}"] = "1"
	return all
}

// one is each of these series at 1.
func one(series ...string) map[string]string {
	all := map[string]string{}
	for _, s := range series {
		all[s] = "1"
	}
	return all
}

func TestAttemptDone(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	m.SetHosts([]string{"api.example.com", "::1"})
	m.AttemptDone("api.example.com", "GET", "", 3*time.Millisecond)
	m.AttemptDone("::1", "POST", schemas.UpstreamReset, time.Second)
	m.AttemptDone("evil.example", "BREW", "CANARY", time.Second)

	series := scrape(t, m)
	require.Equal(t, "1", series[`weir_attempts_total{code="ok"}`])
	require.Equal(t, "1", series[`weir_attempts_total{code="UPSTREAM_RESET"}`])
	require.Equal(t, "1", series[`weir_attempts_total{code="other"}`])
	require.Equal(t, "0.003", series[`executor_http_attempt_duration_seconds_sum{host="api.example.com",method="GET"}`])
	require.Equal(t, "1", series[`executor_http_attempt_duration_seconds_count{host="::1",method="POST"}`])
	require.Equal(t, "1", series[`executor_http_attempt_duration_seconds_count{host="other",method="other"}`])
}

// TestHostsAreBoundedAcrossReloads, also those that happen at once.
func TestHostsAreBoundedAcrossReloads(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	var all sync.WaitGroup
	for reload := range 5 {
		all.Go(func() {
			for i := range 60 {
				host := fmt.Sprintf("h%d-%d.example", reload, i)
				m.SetHosts([]string{host})
				m.Retry(host, "GET", 1, "other", "")
				m.AttemptDone(host, "GET", "", 0)
			}
		})
	}
	all.Wait()
	m.SetHosts([]string{"late.example"})
	m.Retry("late.example", "GET", 1, "other", "")
	require.LessOrEqual(t, count(t, m, "executor_http_retry_total"), 101, "100 hosts and other")
}

//nolint:paralleltest // allocations are counted for the whole process
func TestHotPathDoesNotAllocate(t *testing.T) {
	m := telemetry.NewMetrics()
	m.SetHosts([]string{"localhost"})
	n := testing.AllocsPerRun(200, func() {
		m.Accepted(schemas.KindHTTP)
		m.AttemptDone("localhost", "GET", "", time.Millisecond)
		m.Barrier(time.Millisecond)
		m.EvidenceWritten(schemas.EvidenceAttempt)
		m.Settled(schemas.KindHTTP, schemas.OutcomeFailed, schemas.HTTPFailure, time.Millisecond)
		m.Answered("executor", "POST", false, 200, time.Millisecond)
	})
	require.Zero(t, n)
}

// Prometheus' own linter: units, suffixes, help texts.
func TestExpositionPassesTheLinter(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	m.AttemptDone("h", "GET", "", time.Second)
	m.Retry("h", "GET", 1, "status", "503")
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	problems, err := promlint.New(w.Body).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
}

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
	for series, want := range map[string]string{
		`weir_agent_runs{task_type="SUMMARY"}`:         "0", // a run leaves the gauge that it entered
		`weir_agent_runs{task_type="OTHER"}`:           "0",
		`weir_agent_runs{task_type="other"}`:           "1", // what the configuration never named is no label
		`weir_agent_breaker_open{task_type="SUMMARY"}`: "1",
	} {
		assert.Equal(t, want, page[series], series)
	}
	assert.NotContains(t, page, `weir_agent_runs{task_type="`+canary+`"}`)
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

// TestQueueLag is read at a scrape, once a second at most, and absent where the log
// cannot say.
func TestQueueLag(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, asked, away := telemetry.NewMetrics(), 0, error(nil)
		m.QueueLag(func(ctx context.Context) (map[schemas.Queue]uint64, error) {
			asked++
			_, bounded := ctx.Deadline()
			assert.True(t, bounded)
			return map[schemas.Queue]uint64{schemas.QueueNew: uint64(asked), schemas.QueueWake: 0}, away
		})
		require.Zero(t, asked, "nobody scraped")
		for range 3 {
			series := scrape(t, m)
			require.Equal(t, "1", series[`weir_queue_lag{queue="new"}`])
			require.Equal(t, "0", series[`weir_queue_lag{queue="wake"}`])
		}
		time.Sleep(time.Second)
		require.Equal(t, "2", scrape(t, m)[`weir_queue_lag{queue="new"}`])
		time.Sleep(time.Second)
		away = errors.New("away")
		require.NotContains(t, scrape(t, m), `weir_queue_lag{queue="new"}`)
		time.Sleep(time.Second)
		away = nil
		require.Equal(t, "4", scrape(t, m)[`weir_queue_lag{queue="new"}`])
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDeployedNames: every metric that the alerts, the dashboard and the scaler ask for is
// one that a node has, by the page that TestDocsListTheMetrics checks.
func TestDeployedNames(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	require.NoError(t, err)
	known := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^- `([a-z_]+)` \\(([a-z]+)").FindAllStringSubmatch(string(page), -1) {
		known[row[1]] = true
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			known[row[1]+suffix] = row[2] == "histogram"
		}
	}
	files := []string{"../../deploy/helm/weir/templates/monitoring.yaml"}
	for _, pattern := range []string{"../../deploy/prometheus/*.yaml", "../../deploy/grafana/*.json"} {
		more, err := filepath.Glob(pattern)
		require.NoError(t, err)
		files = append(files, more...)
	}
	require.Len(t, files, 5)
	// A name that a label or a brace follows, or a range, or the end of a selector.
	name := regexp.MustCompile(`\b(weir|gen_ai|executor)_[a-z_]+\b\s*[{\[)=]`)
	asked := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, hit := range name.FindAllString(string(data), -1) {
			hit = strings.TrimRight(hit, " \n{[)=")
			if strings.HasPrefix(hit, "gen_ai_") && strings.HasSuffix(hit, "_name") { // a label
				continue
			}
			if hit == "gen_ai_request_model" || hit == "gen_ai_token_type" {
				continue
			}
			asked++
			require.True(t, known[hit], "%s asks for %s", file, hit)
		}
	}
	require.Greater(t, asked, 40)
}

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
	type testCase struct {
		asked, model, upstream string
		code                   schemas.Code
		wantUpstream, want     string
		err                    string
	}
	table.Run(t, map[string]testCase{
		"an exact name":            {"quick", "small", "there", "", "there", "small", ""},
		"a pattern by its name":    {"", "openai/*", "openai", "", "openai", "openai/*", ""},
		"what a pattern stood for": {"", "openai/gpt", "openai", "", "openai", "openai/*", ""},
		"the longest pattern":      {"", "openai/old/" + canary, "old", "", "old", "openai/old/*", ""},
		"a failure":                {"", "small", "here", schemas.UpstreamTimeout, "here", "small", "UPSTREAM_TIMEOUT"},
		"a rare failure":           {"", "small", "here", schemas.UpstreamTLS, "here", "small", "other"},
		"an unknown failure":       {"", "small", "here", canary, "here", "small", "other"},
		"no such model":            {"", canary, "here", "", "other", "other", ""},
		"another's upstream":       {"", "small", "openai", "", "other", "other", ""},
	}, func(t *testing.T, tt testCase) {
		m := telemetry.NewMetrics()
		m.SetModels(models())
		m.ChatCalled(schemas.ChatAudit{Asked: tt.asked, Model: tt.model, Upstream: tt.upstream, Usage: usage, DurationMS: 1500, FirstMS: 250}, tt.code)
		page, labels := scrape(t, m), fmt.Sprintf(chatLabels, tt.wantUpstream, tt.want)
		assert.Equal(t, "100", page["gen_ai_client_token_usage_sum{"+labels+`,gen_ai_token_type="input"}`])
		assert.Equal(t, "20", page["gen_ai_client_token_usage_sum{"+labels+`,gen_ai_token_type="output"}`])
		assert.Equal(t, "1.5", page[fmt.Sprintf(`gen_ai_client_operation_duration_seconds_sum{error_type=%q,%s}`, tt.err, labels)])
		assert.Equal(t, "0.25", page["gen_ai_server_time_to_first_token_seconds_sum{"+labels+"}"])
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

func TestWhatACallDidNotHaveIsNotRecorded(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	m.ChatCalled(schemas.ChatAudit{Model: "early", Upstream: "here"}, "") // before any configuration
	m.SetModels(models())
	m.ChatCalled(schemas.ChatAudit{Model: "small", Upstream: "here", DurationMS: 7}, schemas.UpstreamConnect)
	m.ChatCalled(schemas.ChatAudit{Model: "small", Upstream: "here", Usage: &schemas.ChatUsage{Prompt: 1, Nanos: 5}}, "")
	m.ChatCalled(schemas.ChatAudit{Dialect: schemas.DialectEmbeddings, Model: "small", Upstream: "here", DurationMS: 7}, "")
	page := scrape(t, m)
	labels := fmt.Sprintf(chatLabels, "here", "small")
	embeddings := strings.Replace(labels, `"chat"`, `"embeddings"`, 1)
	assert.Equal(t, "1", page[`gen_ai_client_operation_duration_seconds_count{error_type="",`+embeddings+"}"])
	assert.NotContains(t, page, "gen_ai_client_token_usage_count{"+embeddings+`,gen_ai_token_type="input"}`, "it has used none")
	assert.Equal(t, "0", page["gen_ai_server_time_to_first_token_seconds_count{"+labels+"}"], "nothing came")
	assert.Equal(t, "1", page["gen_ai_client_token_usage_count{"+labels+`,gen_ai_token_type="input"}`], "one call used something")
	assert.Equal(t, "0", page[`weir_chat_cost_usd_total{gen_ai_provider_name="here",gen_ai_request_model="small"}`], "it has no price")
	assert.Equal(t, "1", page[`gen_ai_client_operation_duration_seconds_count{error_type="",`+fmt.Sprintf(chatLabels, "other", "other")+"}"])
}

func TestTheModelsAndBudgetsOfALifeAreBounded(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	var many []schemas.Model
	for i := range 300 {
		many = append(many, schemas.Model{Name: fmt.Sprintf("m%d", i), Upstreams: []schemas.ModelUpstream{{Name: fmt.Sprintf("u%d", i)}}})
		m.SetBudgets([]schemas.Budget{{Name: fmt.Sprintf("b%d", i)}})
	}
	m.SetModels(many)
	m.SetModels(many[100:])
	for _, n := range []string{"5", "150", "250"} {
		m.ChatCalled(schemas.ChatAudit{Model: "m" + n, Upstream: "u" + n, DurationMS: 1}, "")
	}
	m.ChatRefused("b99")
	m.ChatRefused("b299")
	m.ChatRefused("b300")
	m.ChatRefused(schemas.BudgetOfTask)
	page := scrape(t, m)
	called := func(model, upstream string) string {
		return page[`gen_ai_client_operation_duration_seconds_count{error_type="",`+fmt.Sprintf(chatLabels, upstream, model)+"}"]
	}
	assert.Equal(t, []string{"2", "1"}, []string{called("other", "other"), called("m150", "u150")}, "one is not configured any more, another came too late for a name")
	for budget, n := range map[string]string{"b99": "1", "other": "2", "task": "1"} {
		assert.Equal(t, n, strings.TrimPrefix(page[`weir_chat_refused_total{budget="`+budget+`"}`], "0"), budget)
	}
}
