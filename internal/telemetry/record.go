package telemetry

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/schemas"
)

// Accepted counts an action that was stored.
func (m *Metrics) Accepted(kind schemas.Kind) { pick(m.accepted, kind).Inc() }

// Refused counts a request that the door answered with a problem.
func (m *Metrics) Refused(code schemas.Code) { pick(m.refused, code).Inc() }

// Settled counts a terminal event. An empty code is a plain success.
func (m *Metrics) Settled(kind schemas.Kind, outcome schemas.Outcome, code schemas.Code) {
	if _, ok := m.accepted[kind]; !ok {
		kind = other
	}
	c, ok := m.settled[settledKey{kind, outcome}]
	if !ok {
		c = m.settled[settledKey{kind, other}]
	}
	c.Inc()
	if code == "" {
		return
	}
	if c, ok = m.settledCode[codeKey{kind, code}]; !ok {
		c = m.settledCode[codeKey{kind, other}]
	}
	c.Inc()
}

// Denied counts a call that policy refused.
func (m *Metrics) Denied(code schemas.Code) { pick(m.denied, code).Inc() }

// AttemptDone records one outbound attempt. An empty code says that a complete
// answer came back. See SetHosts for the host label.
func (m *Metrics) AttemptDone(host, method string, code schemas.Code, d time.Duration) {
	if code == "" {
		code = CodeOK
	}
	pick(m.attempts, code).Inc()
	m.duration.WithLabelValues(m.hosts.label(host), methodLabel(method)).Observe(d.Seconds())
}

// maxAttemptLabel is the largest attempt number with a series of its own.
const maxAttemptLabel = 9

// Retry counts an attempt that failed in a way that asks for another. The kind
// is status, timeout, connect or other; status is set for kind status.
func (m *Metrics) Retry(host, method string, attempt int, kind, status string) {
	m.retries.WithLabelValues(m.hosts.label(host), methodLabel(method),
		attemptLabel(attempt), retryKind(kind), retryStatus(status)).Inc()
}

// Parked counts a message that was put on the dead-letter stream.
func (m *Metrics) Parked(code schemas.Code) { pick(m.parked, code).Inc() }

// Redelivered counts a message that was handed out before.
func (m *Metrics) Redelivered(kind schemas.Kind) { pick(m.redelivered, kind).Inc() }

// Overflowed counts a message that was moved to an overflow queue.
func (m *Metrics) Overflowed(kind schemas.Kind) { pick(m.overflowed, kind).Inc() }

// Overdue counts an action that had to be woken because its end or next step was overdue.
func (m *Metrics) Overdue(kind schemas.Kind) { pick(m.overdue, kind).Inc() }

// HeartbeatMissed counts a silence of the broker.
func (m *Metrics) HeartbeatMissed() { m.heartbeats.Inc() }

// SSE adds to the number of open event streams: +1 on open, -1 on close.
func (m *Metrics) SSE(delta int) { m.sse.Add(float64(delta)) }

// Barrier records how long a writer waited to be durable.
func (m *Metrics) Barrier(d time.Duration) { m.barrier.Observe(d.Seconds()) }

// EvidenceWritten counts a stored evidence record.
func (m *Metrics) EvidenceWritten(kind string) { pick(m.evidence, kind).Inc() }

// RuleApplied counts an attempt that traffic rules of a type had an effect on.
func (m *Metrics) RuleApplied(ruleType string) { pick(m.traffic, ruleType).Inc() }

// ConnectionRefused counts a connection over a cap: total or peer.
func (m *Metrics) ConnectionRefused(limit string) { pick(m.connections, limit).Inc() }

// StartupDone says that the node is ready, and how long that took.
func (m *Metrics) StartupDone(d time.Duration) { m.startup.Set(d.Seconds()) }

func pick[T ~string](series map[T]prometheus.Counter, value T) prometheus.Counter {
	if c, ok := series[value]; ok {
		return c
	}
	return series[other]
}

func methodLabel(method string) string {
	if schemas.KnownMethod(method) {
		return method
	}
	return other
}

func attemptLabel(n int) string {
	if n < 1 || n > maxAttemptLabel {
		return other
	}
	return strconv.Itoa(n)
}

func retryKind(kind string) string {
	switch kind {
	case "status", "timeout", "connect":
		return kind
	default:
		return other
	}
}

// retryStatus passes a status that can be retried and drops anything else:
// a label without a value is a label that is absent.
func retryStatus(status string) string {
	n, err := strconv.Atoi(status)
	if err != nil || n != 429 && (n < 500 || n > 599) {
		return ""
	}
	return strconv.Itoa(n)
}
