package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Describe names every series that m may have, those without any value too.
func Describe(m *Metrics, to chan<- *prometheus.Desc) { m.registry.Describe(to) }

// Registry is where the metrics of m are registered.
func Registry(m *Metrics) *prometheus.Registry { return m.registry }
