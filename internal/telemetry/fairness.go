package telemetry

import "github.com/prometheus/client_golang/prometheus"

// crowdSeries describe the work that is kept apart because one tenant has too much of it.
type crowdSeries struct {
	served prometheus.Gauge
	passed prometheus.Counter
}

func (m *Metrics) crowds() {
	m.crowd.served = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "weir_crowds", Help: "Consumers of single tenants that this node works for, because a queue had too much of the tenant.",
	})
	m.registry.MustRegister(m.crowd.served)
	m.crowd.passed = m.counter("weir_crowd_messages_passed_over_total",
		"Messages of a queue that were left to the consumer of their tenant.")
}

// Crowds sets how many consumers of single tenants the node works for.
func (m *Metrics) Crowds(n int) { m.crowd.served.Set(float64(n)) }

// PassedOver counts messages that a queue has left to the consumer of their tenant.
func (m *Metrics) PassedOver(n int) { m.crowd.passed.Add(float64(n)) }
