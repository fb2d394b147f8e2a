package telemetry_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"weir/internal/telemetry"
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

func TestClosedVocabulariesStartAtZero(t *testing.T) {
	t.Parallel()
	series := scrape(t, telemetry.NewMetrics())
	zero := func(format string, args ...any) {
		name := fmt.Sprintf(format, args...)
		require.Equal(t, "0", series[name], name)
	}
	for _, kind := range schemas.Kinds() {
		zero("weir_actions_accepted_total{kind=%q}", kind)
		zero("weir_redeliveries_total{kind=%q}", kind)
		zero("weir_actions_overdue_total{kind=%q}", kind)
		for _, outcome := range schemas.Outcomes() {
			zero("weir_actions_settled_total{kind=%q,outcome=%q}", kind, outcome)
		}
		for _, code := range schemas.SettleCodes() {
			zero("weir_actions_settled_code_total{code=%q,kind=%q}", code, kind)
		}
	}
	for _, code := range schemas.DoorCodes() {
		zero("weir_requests_refused_total{code=%q}", code)
	}
	for _, code := range schemas.DenyCodes() {
		zero("weir_policy_denials_total{code=%q}", code)
	}
	for _, code := range append(schemas.UpstreamCodes(), telemetry.CodeOK) {
		zero("weir_attempts_total{code=%q}", code)
	}
	for _, code := range append(schemas.SettleCodes(), schemas.Internal) {
		zero("weir_dead_letters_total{code=%q}", code)
	}
	for _, kind := range []string{schemas.EvidenceAttempt, schemas.EvidenceConnector, schemas.EvidenceDecision} {
		zero("weir_evidence_records_total{kind=%q}", kind)
	}
	zero("weir_pull_heartbeats_missed_total")
	zero("weir_crowds")
	zero("weir_crowd_messages_passed_over_total")
	zero("weir_sse_streams")
	zero("weir_startup_duration_seconds")
	zero("weir_log_dropped_attributes_total")
	zero("weir_log_redacted_messages_total")
	require.Contains(t, series, "go_goroutines")
	require.Contains(t, series, "process_start_time_seconds")
}

// Each call moves the series named, and no other of Weir's.
func TestEachMethodMovesItsSeries(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		call func(m *telemetry.Metrics)
		want map[string]string
	}{
		"accepted": {
			func(m *telemetry.Metrics) { m.Accepted(schemas.KindHTTP) },
			map[string]string{`weir_actions_accepted_total{kind="http"}`: "1"},
		},
		"accepted unknown kind": {
			func(m *telemetry.Metrics) { m.Accepted("CANARY") },
			map[string]string{`weir_actions_accepted_total{kind="other"}`: "1"},
		},
		"refused": {
			func(m *telemetry.Metrics) { m.Refused(schemas.LogFull) },
			map[string]string{`weir_requests_refused_total{code="LOG_FULL"}`: "1"},
		},
		"refused unknown": {
			func(m *telemetry.Metrics) { m.Refused("CANARY") },
			map[string]string{`weir_requests_refused_total{code="other"}`: "1"},
		},
		"settled well": {
			func(m *telemetry.Metrics) { m.Settled(schemas.KindPlan, schemas.OutcomeSucceeded, "") },
			map[string]string{`weir_actions_settled_total{kind="plan",outcome="succeeded"}`: "1"},
		},
		"settled badly": {
			func(m *telemetry.Metrics) {
				m.Settled(schemas.KindHTTP, schemas.OutcomeFailed, schemas.UpstreamTimeout)
			},
			map[string]string{
				`weir_actions_settled_total{kind="http",outcome="failed"}`:             "1",
				`weir_actions_settled_code_total{code="UPSTREAM_TIMEOUT",kind="http"}`: "1",
			},
		},
		"settled unknown": {
			func(m *telemetry.Metrics) { m.Settled("CANARY", "CANARY", "CANARY") },
			map[string]string{
				`weir_actions_settled_total{kind="other",outcome="other"}`:   "1",
				`weir_actions_settled_code_total{code="other",kind="other"}`: "1",
			},
		},
		"denied": {
			func(m *telemetry.Metrics) { m.Denied(schemas.DenyAddress) },
			map[string]string{`weir_policy_denials_total{code="DENY_ADDRESS"}`: "1"},
		},
		"retry": {
			func(m *telemetry.Metrics) {
				m.SetHosts([]string{"localhost"})
				m.Retry("LOCALHOST", "GET", 2, "status", "503")
			},
			map[string]string{
				`executor_http_retry_total{attempt_number="2",host="localhost",method="GET",retry_kind="status",retry_status="503"}`: "1",
			},
		},
		"retry without a status": {
			func(m *telemetry.Metrics) { m.Retry("h", "PUT", 1, "timeout", "") },
			map[string]string{
				`executor_http_retry_total{attempt_number="1",host="other",method="PUT",retry_kind="timeout",retry_status=""}`: "1",
			},
		},
		"retry hostile": {
			func(m *telemetry.Metrics) { m.Retry("CANARY", "CANARY", -1, "CANARY", "CANARY") },
			map[string]string{
				`executor_http_retry_total{attempt_number="other",host="other",method="other",retry_kind="other",retry_status=""}`: "1",
			},
		},
		"parked": {
			func(m *telemetry.Metrics) { m.Parked(schemas.Poison) },
			map[string]string{`weir_dead_letters_total{code="POISON"}`: "1"},
		},
		"redelivered": {
			func(m *telemetry.Metrics) { m.Redelivered(schemas.KindHTTP) },
			map[string]string{`weir_redeliveries_total{kind="http"}`: "1"},
		},
		"overdue": {
			func(m *telemetry.Metrics) { m.Overdue(schemas.KindRun) },
			map[string]string{`weir_actions_overdue_total{kind="run"}`: "1"},
		},
		"heartbeat": {
			func(m *telemetry.Metrics) { m.HeartbeatMissed() },
			map[string]string{`weir_pull_heartbeats_missed_total`: "1"},
		},
		"crowds": {
			func(m *telemetry.Metrics) { m.Crowds(2); m.Crowds(1); m.PassedOver(7) },
			map[string]string{`weir_crowds`: "1", `weir_crowd_messages_passed_over_total`: "7"},
		},
		"sse": {
			func(m *telemetry.Metrics) { m.SSE(1); m.SSE(1); m.SSE(-1) },
			map[string]string{`weir_sse_streams`: "1"},
		},
		"evidence": {
			func(m *telemetry.Metrics) { m.EvidenceWritten(schemas.EvidenceAttempt) },
			map[string]string{`weir_evidence_records_total{kind="http.attempt"}`: "1"},
		},
		"startup": {
			func(m *telemetry.Metrics) { m.StartupDone(250 * time.Millisecond) },
			map[string]string{`weir_startup_duration_seconds`: "0.25"},
		},
		"barrier": {
			func(m *telemetry.Metrics) { m.Barrier(2 * time.Second) },
			map[string]string{
				`weir_barrier_duration_seconds_count`:             "1",
				`weir_barrier_duration_seconds_sum`:               "2",
				`weir_barrier_duration_seconds_bucket{le="+Inf"}`: "1",
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
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
}

func TestAttemptDone(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	m.SetHosts([]string{"https://api.example.com/v1/", "[::1]:8080"})
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

func TestSetHostsReadsEveryFormOfAnItem(t *testing.T) {
	t.Parallel()
	tests := []struct{ item, host, label string }{
		{"localhost", "localhost", "localhost"},
		{" LocalHost ", "localhost", "localhost"},
		{"127.0.0.1:8080", "127.0.0.1", "127.0.0.1"},
		{"::1", "::1", "::1"},
		{"[::1]", "::1", "::1"},
		{"http://user@h.example:81/p?q=CANARY", "h.example", "h.example"},
		{".example.com", "a.example.com", "other"},
		{".example.com", ".example.com", "other"},
		{"*", "*", "other"},
		{"", "", "other"},
		{"http://%zz", "%zz", "other"},
		{"a b", "a b", "other"},
	}
	for _, tt := range tests {
		t.Run(tt.item+" "+tt.host, func(t *testing.T) {
			t.Parallel()
			m := telemetry.NewMetrics()
			m.SetHosts([]string{tt.item})
			m.Retry(tt.host, "GET", 1, "connect", "")
			require.Equal(t, "1", scrape(t, m)[fmt.Sprintf(
				`executor_http_retry_total{attempt_number="1",host=%q,method="GET",retry_kind="connect",retry_status=""}`, tt.label,
			)])
		})
	}
}

func TestHostsAreBoundedAcrossReloads(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	for reload := range 5 {
		var hosts []string
		for i := range 60 {
			hosts = append(hosts, fmt.Sprintf("h%d-%d.example", reload, i))
		}
		m.SetHosts(hosts)
		for _, h := range hosts {
			m.Retry(h, "GET", 1, "other", "")
		}
	}
	n := 0
	for series := range scrape(t, m) {
		if strings.HasPrefix(series, "executor_http_retry_total") {
			n++
		}
	}
	require.Equal(t, 101, n, "100 hosts and other")

	m.SetHosts([]string{"h0-0.example"})
	m.Retry("h0-1.example", "GET", 2, "other", "")
	require.Contains(t, scrape(t, m),
		`executor_http_retry_total{attempt_number="2",host="other",method="GET",retry_kind="other",retry_status=""}`,
		"a host that policy no longer names")
}

// The worst a hostile caller can do to the labels of a retry.
func TestRetryLabelsAreBounded(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	for i := range 2000 {
		s := strconv.Itoa(i)
		m.Retry(s, "M"+s, i, "k"+s, s)
	}
	n := 0
	for series := range scrape(t, m) {
		if strings.HasPrefix(series, "executor_http_retry_total") {
			n++
		}
	}
	// attempts 1–9 have no valid status; other has none, 429 or one of 500–599.
	require.Equal(t, 9+1+101, n)
}

func TestMetricsAreSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	log := m.NewLogger(io.Discard, "info", telemetry.FormatJSON)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 200 {
				m.SetHosts([]string{"localhost", fmt.Sprintf("h%d", i)})
				m.Accepted(schemas.KindHTTP)
				m.Settled(schemas.KindHTTP, schemas.OutcomeFailed, schemas.HTTPFailure)
				m.AttemptDone("localhost", "GET", "", time.Millisecond)
				m.Retry("localhost", "GET", 1, "status", "500")
				m.SSE(1)
				log.Info("settled", "kind", schemas.KindHTTP, "nope", i)
			}
		})
	}
	wg.Wait()
	series := scrape(t, m)
	require.Equal(t, "1600", series[`weir_actions_accepted_total{kind="http"}`])
	require.Equal(t, "1600", series[`weir_attempts_total{code="ok"}`])
	require.Equal(t, "1600", series[`weir_log_dropped_attributes_total`])
	require.Equal(t, "1600", series[`weir_sse_streams`])
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
		m.Settled(schemas.KindHTTP, schemas.OutcomeFailed, schemas.HTTPFailure)
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
