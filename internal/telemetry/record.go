package telemetry

import (
	"cmp"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/schemas"
)

// Accepted counts an action that was stored.
func (m *Metrics) Accepted(kind schemas.Kind) { m.accepted.inc(string(kind)) }

// Refused counts a request that the server answered with a problem.
func (m *Metrics) Refused(code schemas.Code) { m.refused.inc(string(code)) }

// Answered records a request that was answered, or whose client went away. stream: the answer was an
// event stream. surface is the name of the surface; a request that reached no route has none.
func (m *Metrics) Answered(surface, method string, stream bool, status int, took time.Duration) {
	use := "write"
	switch {
	case stream:
		use = "stream"
	case method == http.MethodGet, method == http.MethodHead:
		use = "read"
	}
	class := other
	if status >= 100 && status <= 599 {
		class = [...]string{"1xx", "2xx", "3xx", "4xx", "5xx"}[status/100-1]
	}
	m.requests.WithLabelValues(orOther(surface, surfaceName(surface)), use, class).Observe(took.Seconds())
}

// Settled counts a terminal event. An empty code is a plain success. took is the time since the action
// was accepted; clocks of two nodes may differ, so that it may be below zero.
func (m *Metrics) Settled(kind schemas.Kind, outcome schemas.Outcome, code schemas.Code, took time.Duration) {
	m.settled.inc(string(kind), string(outcome))
	m.ends.WithLabelValues(m.settled.labels[0].of(string(kind)), m.settled.labels[1].of(string(outcome))).Observe(max(0, took.Seconds()))
	if code != "" {
		m.settledCode.inc(string(kind), string(code))
	}
}

// Denied counts a call that policy refused.
func (m *Metrics) Denied(code schemas.Code) { m.denied.inc(string(code)) }

// AttemptDone records one outbound attempt. An empty code says that a complete
// answer came back. See SetHosts for the host label.
func (m *Metrics) AttemptDone(host, method string, code schemas.Code, d time.Duration) {
	m.attempts.inc(cmp.Or(string(code), CodeOK))
	m.duration.WithLabelValues(m.host(host), orOther(method, schemas.KnownMethod(method))).Observe(d.Seconds())
}

// maxAttemptLabel is the largest attempt number with a series of its own.
const maxAttemptLabel = 9

// Retry counts an attempt that failed in a way that asks for another. The kind
// is status, timeout, connect or other; status is set for kind status.
func (m *Metrics) Retry(host, method string, attempt int, kind, status string) {
	if n, err := strconv.Atoi(status); err != nil || n != 429 && (n < 500 || n > 599) {
		status = "" // a label without a value is absent
	} else {
		status = strconv.Itoa(n)
	}
	m.retries.WithLabelValues(m.host(host), orOther(method, schemas.KnownMethod(method)),
		orOther(strconv.Itoa(attempt), 1 <= attempt && attempt <= maxAttemptLabel),
		orOther(kind, kind == "status" || kind == "timeout" || kind == "connect"), status).Inc()
}

// DeadLettered counts a message that was put on the dead-letter stream.
func (m *Metrics) DeadLettered(code schemas.Code) { m.deadLettered.inc(string(code)) }

// Redelivered counts a message that was handed out before.
func (m *Metrics) Redelivered(kind schemas.Kind) { m.redelivered.inc(string(kind)) }

// Overflowed counts a message that was moved to an overflow queue.
func (m *Metrics) Overflowed(kind schemas.Kind) { m.overflowed.inc(string(kind)) }

// Overdue counts an action that had to be woken because its end or next step was overdue.
func (m *Metrics) Overdue(kind schemas.Kind) { m.overdue.inc(string(kind)) }

// SetBuild sets the version and the commit that the program was built from.
func (m *Metrics) SetBuild(version, revision string) {
	m.built.WithLabelValues(version, revision, runtime.Version()).Set(1)
}

// HeartbeatMissed counts a silence of the broker.
func (m *Metrics) HeartbeatMissed() { m.heartbeats.Inc() }

// SSE adds to the number of open event streams: +1 on open, -1 on close.
func (m *Metrics) SSE(delta int) { m.sse.Add(float64(delta)) }

// TunnelOpened counts an open tunnel.
func (m *Metrics) TunnelOpened() { m.tunnels.Inc() }

// TunnelEnded counts the end of an open tunnel, and what it has passed.
func (m *Metrics) TunnelEnded(end schemas.TunnelEnd, up, down int64) {
	m.tunnels.Dec()
	m.tunnelEnds.inc(string(end))
	m.tunnelBytes.WithLabelValues("up").Add(float64(up))
	m.tunnelBytes.WithLabelValues("down").Add(float64(down))
}

// Barrier records how long a writer waited to be durable.
func (m *Metrics) Barrier(d time.Duration) { m.barrier.Observe(d.Seconds()) }

// EvidenceWritten counts a stored evidence record.
func (m *Metrics) EvidenceWritten(kind string) { m.evidence.inc(kind) }

// RuleApplied counts an attempt that traffic rules of a type had an effect on.
func (m *Metrics) RuleApplied(ruleType string) { m.traffic.inc(ruleType) }

// ConnectionRefused counts a connection over a cap: total or peer.
func (m *Metrics) ConnectionRefused(limit string) { m.connections.inc(limit) }

// StartupDone says that the node is ready, and how long that took.
func (m *Metrics) StartupDone(d time.Duration) { m.startup.Set(d.Seconds()) }

// AgentRuns adds to the runs that are with an agent. A run may outlast its agent's name in the
// configuration, and must leave the gauge that it entered.
func (m *Metrics) AgentRuns(taskType string, change int) {
	m.agentRuns.WithLabelValues(orOther(taskType, m.tasks.has(taskType, true))).Add(float64(change))
}

// AgentBreaker says whether no run is sent to an agent for now.
func (m *Metrics) AgentBreaker(taskType string, open bool) {
	m.agentBreaker.WithLabelValues(orOther(taskType, m.tasks.has(taskType, true))).Set(map[bool]float64{true: 1}[open])
}

// DestinationsLeft says how many destinations of an entry get no calls now. The entry is
// a name of the policy's.
func (m *Metrics) DestinationsLeft(entry string, asked, open int) {
	entry = orOther(entry, entryName(entry))
	m.destinationPaused.WithLabelValues(entry).Set(float64(asked))
	m.destinationBreaker.WithLabelValues(entry).Set(float64(open))
}

// CallHeld counts a call that was not let through at once.
func (m *Metrics) CallHeld(why string) { m.held.inc(why) }

// OperationsInForce says how many operators' decisions there are of each sort.
func (m *Metrics) OperationsInForce(pauses, pins int) {
	m.operations.WithLabelValues(schemas.OperationPause).Set(float64(pauses))
	m.operations.WithLabelValues(schemas.OperationPin).Set(float64(pins))
}

// PolicyInForce says which policy decides from now on.
func (m *Metrics) PolicyInForce(version string, since time.Time) {
	m.policyInfo.Reset()
	m.policyInfo.WithLabelValues(version).Set(1)
	m.policySince.Set(float64(since.UnixMilli()) / 1e3)
}

// PolicyReloaded counts an attempt to put another policy in force.
func (m *Metrics) PolicyReloaded(ok bool) {
	m.reloads.inc(map[bool]string{true: "ok", false: "failed"}[ok])
}

// Shadowed counts a decision that shadow entries would have changed. The entry
// is a name of the policy's.
func (m *Metrics) Shadowed(entry string, allowed bool) {
	m.shadow.WithLabelValues(orOther(entry, entryName(entry)), map[bool]string{true: "allow", false: "deny"}[allowed]).Inc()
}

// SchemaViolated counts an answer that does not fit the response schema of its entry.
func (m *Metrics) SchemaViolated(entry, mode string) {
	m.violations.WithLabelValues(orOther(entry, entryName(entry)), orOther(mode, slices.Contains([]string{"strict", "warn", "redact"}, mode))).Inc()
}

// ChatCalled records one call of a model: its duration, the time until the first of its answer,
// its usage and its cost. An empty code says that the answer is complete. Of a call that was not
// sent, or used nothing, no tokens are recorded.
func (m *Metrics) ChatCalled(a schemas.ChatAudit, code schemas.Code) {
	p := m.pair(a.Model, a.Upstream)
	observe := func(in *prometheus.HistogramVec, value float64, more ...string) {
		in.WithLabelValues(append([]string{a.Dialect.Operation(), p.upstream, p.model}, more...)...).Observe(value)
	}
	observe(m.chatDuration, float64(a.DurationMS)/1e3, errorType(code))
	if a.FirstMS > 0 {
		observe(m.chatFirst, float64(a.FirstMS)/1e3)
	}
	if u := a.Usage; u != nil {
		observe(m.chatTokens, float64(u.Prompt), "input")
		if a.Dialect != schemas.DialectEmbeddings {
			observe(m.chatTokens, float64(u.Completion), "output")
		}
		if u.Priced && u.Nanos > 0 { // a counter refuses less
			m.chatCost.WithLabelValues(p.upstream, p.model).Add(float64(u.Nanos) / 1e9)
		}
	}
}

// errorType is how a call failed, as far as it is worth a histogram for each model: one
// has 17 series, and a configuration hundreds of models. The rest is other here, and has
// its code in the evidence.
func errorType(code schemas.Code) string {
	switch code {
	case "", schemas.ModelFailed, schemas.Canceled,
		schemas.UpstreamConnect, schemas.UpstreamTimeout, schemas.UpstreamReset, schemas.UpstreamTruncated:
		return string(code)
	default:
		return other
	}
}

// ChatRefused counts a completion that a budget refused. A completion may outlast its budget's
// place in the configuration.
func (m *Metrics) ChatRefused(budget string) {
	m.chatRefused.WithLabelValues(orOther(budget, m.budgets.has(budget, true))).Inc()
}
