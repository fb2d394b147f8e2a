package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// policySeries describe the policy in force, and what its shadow entries say.
type policySeries struct {
	info    *prometheus.GaugeVec
	since   prometheus.Gauge
	reloads map[string]prometheus.Counter
	shadow  *prometheus.CounterVec
}

// The results of a reload, and what a shadow entry would have done.
const (
	reloadOK     = "ok"
	reloadFailed = "failed"
	wouldAllow   = "allow"
	wouldDeny    = "deny"
)

func (m *Metrics) policies() {
	m.policy.info = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_policy_info", Help: "1, with the version of the policy in force.",
	}, []string{"version"})
	m.policy.since = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "weir_policy_since_timestamp_seconds", Help: "When the policy in force came into force on this node.",
	})
	m.registry.MustRegister(m.policy.info, m.policy.since)
	m.policy.reloads = perValue(m.counters("weir_policy_reloads_total",
		"Reloads of the policy. One that failed changed nothing.", "result"), []string{reloadOK, reloadFailed})
	m.policy.shadow = m.counters("weir_policy_shadow_total",
		"Decisions that the shadow entries of the policy would have changed, by the entry that would have decided.", "entry", "would")
}

// PolicyInForce says which policy decides from now on.
func (m *Metrics) PolicyInForce(version string, since time.Time) {
	m.policy.info.Reset()
	m.policy.info.WithLabelValues(version).Set(1)
	m.policy.since.Set(float64(since.UnixMilli()) / 1e3)
}

// PolicyReloaded counts an attempt to put another policy in force.
func (m *Metrics) PolicyReloaded(ok bool) {
	if ok {
		m.policy.reloads[reloadOK].Inc()
		return
	}
	m.policy.reloads[reloadFailed].Inc()
}

// Shadowed counts a decision that shadow entries would have changed. The entry
// is a name of the policy's.
func (m *Metrics) Shadowed(entry string, allowed bool) {
	if !entryName(entry) {
		entry = other
	}
	would := wouldDeny
	if allowed {
		would = wouldAllow
	}
	m.policy.shadow.WithLabelValues(entry, would).Inc()
}
