// Package telemetry is what Weir says about itself: metrics whose labels are
// closed vocabularies, a logger whose keys and values are, and a wrapper for
// what neither may ever print.
package telemetry

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"weir/schemas"
)

// other is the label of everything outside a closed vocabulary, so that a slip
// in the program costs one series and not one a caller.
const other = "other"

// CodeOK is the label of an attempt that brought a complete answer.
const CodeOK = "ok"

// Metrics holds every series of one node in a registry of its own. All methods
// are safe for concurrent use. Series over a closed vocabulary exist from the
// start, at zero: an alert on a rate can tell "never" from "not scraped".
type Metrics struct {
	registry *prometheus.Registry
	hosts    hostSet

	accepted    map[schemas.Kind]prometheus.Counter
	settled     map[settledKey]prometheus.Counter
	settledCode map[codeKey]prometheus.Counter
	refused     map[schemas.Code]prometheus.Counter
	denied      map[schemas.Code]prometheus.Counter
	attempts    map[schemas.Code]prometheus.Counter
	parked      map[schemas.Code]prometheus.Counter
	redelivered map[schemas.Kind]prometheus.Counter
	overflowed  map[schemas.Kind]prometheus.Counter
	overdue     map[schemas.Kind]prometheus.Counter
	evidence    map[string]prometheus.Counter
	traffic     map[string]prometheus.Counter // by the rule's type

	duration *prometheus.HistogramVec
	retries  *prometheus.CounterVec

	heartbeats prometheus.Counter
	sse        prometheus.Gauge
	barrier    prometheus.Histogram
	startup    prometheus.Gauge

	connections map[string]prometheus.Counter // closed at once, by the cap

	policy policySeries
	agent  agentSeries
	chat   chatSeries
	lag    *lag

	destination destinationSeries

	logDropped  prometheus.Counter
	logRedacted prometheus.Counter
	spansLost   prometheus.Counter
}

type settledKey struct {
	kind    schemas.Kind
	outcome schemas.Outcome
}

type codeKey struct {
	kind schemas.Kind
	code schemas.Code
}

// NewMetrics returns the metrics of a node, with those of the Go runtime and
// the process beside them.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.actions()
	m.calls()
	m.node()
	m.policies()
	m.agents()
	m.chats()
	m.queue()
	m.destinations()
	return m
}

// Handler serves the metrics in the format that the scraper asks for.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// actions registers what counts actions and requests.
func (m *Metrics) actions() {
	kinds := append(schemas.Kinds(), other)
	outcomes := append(schemas.Outcomes(), other)
	codes := append(schemas.SettleCodes(), other)

	m.accepted = perValue(m.counters("weir_actions_accepted_total",
		"Actions stored by this node. A repeat that joined an action is not counted again.", "kind"), kinds)

	settled := m.counters("weir_actions_settled_total", "Actions that reached their terminal event here.", "kind", "outcome")
	m.settled = make(map[settledKey]prometheus.Counter, len(kinds)*len(outcomes))
	byCode := m.counters("weir_actions_settled_code_total",
		"Actions that settled with a code, by that code. A success has none.", "kind", "code")
	m.settledCode = make(map[codeKey]prometheus.Counter, len(kinds)*len(codes))
	for _, kind := range kinds {
		for _, outcome := range outcomes {
			m.settled[settledKey{kind, outcome}] = settled.WithLabelValues(string(kind), string(outcome))
		}
		for _, code := range codes {
			m.settledCode[codeKey{kind, code}] = byCode.WithLabelValues(string(kind), string(code))
		}
	}

	m.refused = perValue(m.counters("weir_requests_refused_total",
		"Requests answered with a problem at the door, by its code.", "code"), append(schemas.DoorCodes(), other))
	m.denied = perValue(m.counters("weir_policy_denials_total",
		"Calls that policy refused, by the check that refused.", "code"), append(schemas.DenyCodes(), other))
	m.parked = perValue(m.counters("weir_dead_letters_total",
		"Messages parked because no retry can help, by the reason.", "code"),
		append(schemas.SettleCodes(), schemas.Internal, other))
	m.redelivered = perValue(m.counters("weir_redeliveries_total",
		"Messages that a worker was given for a second or later time.", "kind"), kinds)
	m.overflowed = perValue(m.counters("weir_work_overflowed_total",
		"Messages moved to an overflow queue because no slot had room for them.", "kind"), kinds)
	m.overdue = perValue(m.counters("weir_actions_overdue_total",
		"Times an action was woken whose end or next step was overdue: its message or its wake-up was lost, or workers are behind.", "kind"), kinds)
	m.evidence = perValue(m.counters("weir_evidence_records_total", "Evidence records stored, by kind.", "kind"),
		append(evidenceKinds(), other))
}

// calls registers what counts outbound calls.
func (m *Metrics) calls() {
	codes := append(schemas.UpstreamCodes(), schemas.DenyAddress, schemas.DenyRedirect,
		schemas.Canceled, schemas.DeadlineExceeded, schemas.Interrupted, CodeOK, other)
	m.attempts = perValue(m.counters("weir_attempts_total",
		"Outbound attempts by result: ok for any complete answer, whatever its status.", "code"), codes)

	m.traffic = perValue(m.counters("weir_traffic_rules_total",
		"Attempts that traffic rules had an effect on, by the type of the rules.", "type"), append(schemas.RuleTypes(), other))

	m.duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "executor_http_attempt_duration_seconds",
		Help:    "Time of one outbound attempt, resolution and connect included.",
		Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
	}, []string{"host", "method"})
	m.registry.MustRegister(m.duration)
	m.retries = m.counters("executor_http_retry_total",
		"Attempts that failed in a way that asks for another, by the attempt that failed.",
		"host", "method", "attempt_number", "retry_kind", "retry_status")
}

// node registers what describes the node itself.
func (m *Metrics) node() {
	m.heartbeats = m.counter("weir_pull_heartbeats_missed_total",
		"Times a pull consumer heard nothing from the broker for longer than it should have.")
	m.sse = prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_sse_streams", Help: "Event streams open on this node."})
	m.barrier = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "weir_barrier_duration_seconds",
		Help:    "Time one writer waited for its records to survive what the durability promises.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1},
	})
	m.startup = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "weir_startup_duration_seconds",
		Help: "Time from start to ready; zero while the node is not ready.",
	})
	m.registry.MustRegister(m.sse, m.barrier, m.startup)
	m.connections = perValue(m.counters("weir_connections_refused_total",
		"Connections closed at once, by the cap that was reached: of all of them, or of one peer's.", "cap"),
		[]string{"total", "peer", other})
	m.logDropped = m.counter("weir_log_dropped_attributes_total",
		"Attributes that the logger left out: a key outside the closed set, or a value its key does not allow.")
	m.logRedacted = m.counter("weir_log_redacted_messages_total",
		"Log messages replaced because they do not look like a constant event name.")
	m.spansLost = m.counter("weir_spans_lost_total", "Spans that the collector of traces did not take.")
}

func (m *Metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(c)
	return c
}

// perValue makes the series of a one-label counter, at zero. The map is only
// read from then on.
func perValue[T ~string](vec *prometheus.CounterVec, values []T) map[T]prometheus.Counter {
	series := make(map[T]prometheus.Counter, len(values))
	for _, v := range values {
		series[v] = vec.WithLabelValues(string(v))
	}
	return series
}

func evidenceKinds() []string {
	return []string{
		schemas.EvidenceConnector, schemas.EvidenceAttempt, schemas.EvidenceDecision, schemas.EvidenceRuleWrite,
		schemas.EvidenceTask, schemas.EvidencePush, schemas.EvidenceRepo, schemas.EvidenceChat,
	}
}
