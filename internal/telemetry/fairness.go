package telemetry

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

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

// storedTenants is how many tenants weir_tenant_stored_bytes tells apart: those that have most.
const storedTenants = 20

// tenantBytes is the collector of what tenants have on the log. It asks at a scrape.
type tenantBytes struct {
	stored, share *prometheus.Desc
	read          func() (tenants map[string]int64, share int64)
}

// TenantBytes has weir_tenant_stored_bytes{tenant} and weir_tenant_share_bytes read at each scrape, for the
// 20 tenants that have most. It is called once.
func (m *Metrics) TenantBytes(read func() (tenants map[string]int64, share int64)) {
	m.registry.MustRegister(&tenantBytes{
		stored: prometheus.NewDesc("weir_tenant_stored_bytes", "Bytes on the log of the tenants that have most.", []string{"tenant"}, nil),
		share:  prometheus.NewDesc("weir_tenant_share_bytes", "Bytes that one tenant may always have on the log.", nil, nil),
		read:   read,
	})
}

// Describe implements prometheus.Collector.
func (t *tenantBytes) Describe(to chan<- *prometheus.Desc) { to <- t.stored; to <- t.share }

// Collect implements prometheus.Collector.
func (t *tenantBytes) Collect(to chan<- prometheus.Metric) {
	tenants, share := t.read()
	to <- prometheus.MustNewConstMetric(t.share, prometheus.GaugeValue, float64(share))
	most := slices.SortedFunc(maps.Keys(tenants), func(a, b string) int { return int(tenants[b] - tenants[a]) })
	for _, name := range most[:min(len(most), storedTenants)] {
		to <- prometheus.MustNewConstMetric(t.stored, prometheus.GaugeValue, float64(tenants[name]), name)
	}
}
