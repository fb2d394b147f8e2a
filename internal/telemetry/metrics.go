// Package telemetry is what Weir reports about itself: metrics with closed sets of labels, a
// logger with closed sets of keys and values, and spans of requests and actions.
package telemetry

import (
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"weir/internal/models"
	"weir/schemas"
)

// other is the label of everything outside a closed set, so that an error in the program costs
// one series and not one a caller.
const other = "other"

// CodeOK is the label of an attempt that brought a complete answer.
const CodeOK = "ok"

// Metrics holds every series of one node in a registry of its own. All methods
// are safe for concurrent use. Series over a closed set exist from the
// start, at zero: an alert on a rate can tell "never" from "not scraped".
type Metrics struct {
	registry *prometheus.Registry

	hosts, tasks, budgets bounded[string]
	pairs                 bounded[pair]
	names                 atomic.Pointer[models.Names] // of the models of the configuration

	accepted, settled, settledCode, refused, denied, deadLettered, redelivered, overflowed, overdue closed
	evidence, attempts, traffic, connections, reloads, held, tunnelEnds, tunnelBytes                closed

	retries, shadow, violations, chatCost, chatRefused                                            *prometheus.CounterVec
	agentRuns, agentBreaker, policyInfo, destinationPaused, destinationBreaker, operations, built *prometheus.GaugeVec
	duration, chatTokens, chatDuration, chatFirst, requests, ends                                 *prometheus.HistogramVec

	heartbeats, logDropped, logRedacted, spansLost prometheus.Counter
	sse, startup, policySince, tunnels             prometheus.Gauge
	barrier                                        prometheus.Histogram
}

// label is a label with a closed set of values.
type label struct {
	name   string
	values []string
}

// of returns a value of the set, or other.
func (l label) of(value string) string { return orOther(value, slices.Contains(l.values, value)) }

// among is a label with the values of these lists, and other.
func among[T ~string](name string, lists ...[]T) label {
	l := label{name, []string{other}}
	for _, v := range slices.Concat(lists...) {
		l.values = append(l.values, string(v))
	}
	return l
}

// closed is a counter whose labels have closed sets of values. Any other value counts as other.
type closed struct {
	*prometheus.CounterVec

	labels []label
}

func (c closed) inc(values ...string) {
	for i, v := range values {
		values[i] = c.labels[i].of(v)
	}
	c.WithLabelValues(values...).Inc()
}

// The labels that OpenTelemetry's conventions for generative AI name.
const (
	labelOperation = "gen_ai_operation_name"
	labelProvider  = "gen_ai_provider_name"
	labelModel     = "gen_ai_request_model"
)

// NewMetrics returns the metrics of a node, of the Go runtime and of the process.
func NewMetrics() *Metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := &Metrics{
		registry: registry,
		hosts:    bounded[string]{most: 100}, tasks: bounded[string]{most: 100},
		budgets: bounded[string]{most: 102}, pairs: bounded[pair]{most: 200},
	}
	m.actions()
	m.calls()
	m.chats()
	m.node()
	return m
}

// Handler serves the metrics in the format that the scraper asks for.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

func (m *Metrics) counter(name, help string) prometheus.Counter {
	return promauto.With(m.registry).NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return promauto.With(m.registry).NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func (m *Metrics) gauge(name, help string) prometheus.Gauge {
	return promauto.With(m.registry).NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func (m *Metrics) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return promauto.With(m.registry).NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func (m *Metrics) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return promauto.With(m.registry).NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// closed makes a counter with a series for each value of its labels, at zero.
func (m *Metrics) closed(name, help string, labels ...label) closed {
	var names []string
	for _, l := range labels {
		names = append(names, l.name)
	}
	c := closed{m.counters(name, help, names...), labels}
	c.start()
	return c
}

// start makes the series that begin with these values.
func (c closed) start(values ...string) {
	if len(values) == len(c.labels) {
		c.WithLabelValues(values...)
		return
	}
	for _, v := range c.labels[len(values)].values {
		c.start(append(values, v)...)
	}
}

// actions registers what counts actions and requests.
func (m *Metrics) actions() {
	kinds, codes := among("kind", schemas.Kinds()), among("code", schemas.SettleCodes())
	m.accepted = m.closed("weir_actions_accepted_total",
		"Actions stored by this node. A repeat that joined an action is not counted again.", kinds)
	m.settled = m.closed("weir_actions_settled_total", "Actions that reached their terminal event here.",
		kinds, among("outcome", schemas.Outcomes()))
	m.ends = m.histograms("weir_action_duration_seconds",
		"Time from an action's acceptance to its terminal event, with all waits, for the actions that ended here.",
		[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86400}, "kind", "outcome")
	m.requests = m.histograms("weir_request_duration_seconds",
		"Time from a request's headers to the end of its answer. It includes the action if the request waits for its end. use is read, write or stream.",
		[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}, "surface", "use", "status")
	m.settledCode = m.closed("weir_actions_settled_code_total",
		"Actions that settled with a code, by that code. A success has none.", kinds, codes)
	m.refused = m.closed("weir_requests_refused_total",
		"Requests that ingress or egress answered with a problem, by its code.", among("code", schemas.IngressCodes()))
	m.denied = m.closed("weir_policy_denials_total",
		"Calls that policy refused, by the check that refused.", among("code", schemas.DenyCodes()))
	m.deadLettered = m.closed("weir_dead_letters_total",
		"Messages parked because no retry can help, by the reason.", among("code", schemas.SettleCodes(), []schemas.Code{schemas.Internal}))
	m.redelivered = m.closed("weir_redeliveries_total", "Messages that a worker was given for a second or later time.", kinds)
	m.overflowed = m.closed("weir_work_overflowed_total",
		"Messages moved to an overflow queue because no slot had room for them.", kinds)
	m.overdue = m.closed("weir_actions_overdue_total",
		"Overdue actions that were woken: a message or a wake-up was lost, or workers are late.", kinds)
	m.evidence = m.closed("weir_evidence_records_total", "Evidence records stored, by kind.", among("kind", evidenceKinds()))
}

// calls registers what describes outbound calls, policy and agents.
func (m *Metrics) calls() {
	m.attempts = m.closed("weir_attempts_total", "Outbound attempts by result: ok for any complete answer, whatever its status.",
		among("code", schemas.UpstreamCodes(), []schemas.Code{
			schemas.DenyAddress, schemas.DenyRedirect, schemas.Canceled, schemas.DeadlineExceeded, schemas.Interrupted, CodeOK,
		}))
	m.traffic = m.closed("weir_traffic_rules_total",
		"Attempts that traffic rules had an effect on, by the type of the rules.", among("type", schemas.RuleTypes()))
	m.duration = m.histograms("executor_http_attempt_duration_seconds", "Time of one outbound attempt, resolution and connect included.",
		[]float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}, "host", "method")
	m.retries = m.counters("executor_http_retry_total",
		"Failed attempts that may be repeated, by the number of the attempt.",
		"host", "method", "attempt_number", "retry_kind", "retry_status")
	m.held = m.closed("weir_calls_held_total", "Calls that were not let through at once, by what they waited for.",
		among("reason", []string{schemas.WaitLimit, schemas.WaitCapacity, schemas.WaitDestination, schemas.WaitPaused}))
	m.destinationPaused = m.gauges("weir_destination_paused",
		"Destinations of an entry that are paused because they requested it, by 429 or Retry-After.", "entry")
	m.destinationBreaker = m.gauges("weir_destination_breaker_open",
		"Destinations of an entry that are paused because they failed too often in a row.", "entry")
	m.operations = m.gauges("weir_operations", "Pauses and pins in force.", "do")
	m.OperationsInForce(0, 0)
	m.policyInfo = m.gauges("weir_policy_info", "1, with the version of the policy in force.", "version")
	m.policySince = m.gauge("weir_policy_since_timestamp_seconds", "When the policy took effect on this node.")
	m.reloads = m.closed("weir_policy_reloads_total", "Reloads of the policy. One that failed changed nothing.",
		label{"result", []string{"ok", "failed"}})
	m.shadow = m.counters("weir_policy_shadow_total",
		"Decisions that the shadow entries of the policy would have changed, by the entry that would have decided.", "entry", "would")
	m.violations = m.counters("weir_response_schema_violations_total",
		"Answers that do not fit the response schema of their entry, by the schema's mode.", "entry", "mode")
	m.agentRuns = m.gauges("weir_agent_runs", "Runs that are with a remote agent now, by task type.", "task_type")
	m.agentBreaker = m.gauges("weir_agent_breaker_open",
		"1 while a remote agent is paused because it failed too often in a row, until a run succeeds.", "task_type")
}

// chats registers what describes the calls of models. The buckets come from the conventions,
// so that dashboards made for them fit.
func (m *Metrics) chats() {
	m.chatTokens = m.histograms("gen_ai_client_token_usage",
		"Input and output tokens of one call of a model, estimated if the provider reports none.",
		prometheus.ExponentialBuckets(1, 4, 14), labelOperation, labelProvider, labelModel, "gen_ai_token_type")
	m.chatDuration = m.histograms("gen_ai_client_operation_duration_seconds",
		"Time of one call of a model until the end of its answer. error_type is why it failed, and empty where it did not.",
		prometheus.ExponentialBuckets(.01, 2, 14), labelOperation, labelProvider, labelModel, "error_type")
	m.chatFirst = m.histograms("gen_ai_server_time_to_first_token_seconds", "Time of one call of a model until its answer began.",
		[]float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}, labelOperation, labelProvider, labelModel)
	m.chatCost = m.counters("weir_chat_cost_usd_total",
		"What calls of models have cost by the prices of the configuration, in US dollars.", labelProvider, labelModel)
	m.chatRefused = m.counters("weir_chat_refused_total", "Completions that a budget refused, by the budget.", "budget")
	m.SetBudgets(nil)
}

// node registers what describes the node itself.
func (m *Metrics) node() {
	m.heartbeats = m.counter("weir_pull_heartbeats_missed_total",
		"Times a pull consumer heard nothing from the broker for longer than it should have.")
	m.sse = m.gauge("weir_sse_streams", "Event streams open on this node.")
	m.tunnels = m.gauge("weir_tunnels", "Tunnels of the forward proxy that are open on this node.")
	m.tunnelEnds = m.closed("weir_tunnels_ended_total", "Tunnels of the forward proxy that ended here, by how they ended.",
		among("end", schemas.TunnelEnds()))
	m.tunnelBytes = m.closed("weir_tunnel_bytes_total",
		"Bytes that ended tunnels have passed: up to their targets, down to their clients.", among("direction", []string{"up", "down"}))
	m.barrier = promauto.With(m.registry).NewHistogram(prometheus.HistogramOpts{
		Name:    "weir_barrier_duration_seconds",
		Help:    "Time one writer waited for its records to survive what the durability promises.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1},
	})
	m.startup = m.gauge("weir_startup_duration_seconds", "Time from start to ready; zero while the node is not ready.")
	m.built = m.gauges("weir_build_info", "1, with the version, commit and Go release that the program was built from.",
		"version", "revision", "goversion")
	m.connections = m.closed("weir_connections_refused_total",
		"Connections closed at once, by the cap that was reached: of all of them, or of one peer's.", among("cap", []string{"total", "peer"}))
	m.logDropped = m.counter("weir_log_dropped_attributes_total",
		"Attributes that the logger left out: a key outside the closed set, or a value its key does not allow.")
	m.logRedacted = m.counter("weir_log_redacted_messages_total",
		"Log messages replaced because they do not look like a constant event name.")
	m.spansLost = m.counter("weir_spans_lost_total", "Spans that the collector of traces did not take.")
}

func evidenceKinds() []string {
	return []string{
		schemas.EvidenceConnector, schemas.EvidenceAttempt, schemas.EvidenceDecision, schemas.EvidenceRuleWrite,
		schemas.EvidenceTask, schemas.EvidencePush, schemas.EvidenceRepo, schemas.EvidenceChat, schemas.EvidenceTunnel,
	}
}
