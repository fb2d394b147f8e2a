package telemetry

import (
	"cmp"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limits"
)

// storedTenants is how many tenants weir_tenant_stored_bytes tells apart: those that have most.
const storedTenants = 20

// tenantBytes is the collector of what tenants have on the log. It asks at a scrape.
type tenantBytes struct {
	stored, limit *prometheus.Desc
	read          func() map[string]limits.Room
}

// TenantBytes has weir_tenant_stored_bytes{tenant} and weir_tenant_limit_bytes{tenant} read at each scrape, for the
// 20 tenants that have most. It is called once.
func (m *Metrics) TenantBytes(read func() map[string]limits.Room) {
	m.registry.MustRegister(&tenantBytes{
		stored: prometheus.NewDesc("weir_tenant_stored_bytes", "Bytes on the log of the tenants that have most.", []string{"tenant"}, nil),
		limit:  prometheus.NewDesc("weir_tenant_limit_bytes", "Bytes that these tenants may have now, beyond their share while there is room.", []string{"tenant"}, nil),
		read:   read,
	})
}

// Describe implements prometheus.Collector.
func (t *tenantBytes) Describe(to chan<- *prometheus.Desc) { to <- t.stored; to <- t.limit }

// Collect implements prometheus.Collector.
func (t *tenantBytes) Collect(to chan<- prometheus.Metric) {
	tenants := t.read()
	most := slices.SortedFunc(maps.Keys(tenants), func(a, b string) int { return cmp.Compare(tenants[b].Used, tenants[a].Used) })
	for _, name := range most[:min(len(most), storedTenants)] {
		to <- prometheus.MustNewConstMetric(t.stored, prometheus.GaugeValue, float64(tenants[name].Used), name)
		to <- prometheus.MustNewConstMetric(t.limit, prometheus.GaugeValue, float64(tenants[name].Limit), name)
	}
}
