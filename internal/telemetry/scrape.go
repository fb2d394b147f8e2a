package telemetry

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limits"
	"weir/schemas"
)

// scraped is a collector of gauges that are read at each scrape, and only then.
type scraped func(to chan<- prometheus.Metric)

func (scraped) Describe(chan<- *prometheus.Desc) {}

func (s scraped) Collect(to chan<- prometheus.Metric) { s(to) }

// storedTenants is how many tenants weir_tenant_stored_bytes distinguishes: those that have most.
const storedTenants = 20

// TenantBytes has weir_tenant_stored_bytes{tenant} and weir_tenant_limit_bytes{tenant} read at
// each scrape, for the 20 tenants that have most. It is called once.
func (m *Metrics) TenantBytes(read func() map[string]limits.Quota) {
	stored := prometheus.NewDesc("weir_tenant_stored_bytes", "Bytes on the log of the tenants that have most.", []string{"tenant"}, nil)
	limit := prometheus.NewDesc("weir_tenant_limit_bytes",
		"Bytes that these tenants may have now, beyond their share while there is room.", []string{"tenant"}, nil)
	m.registry.MustRegister(scraped(func(to chan<- prometheus.Metric) {
		tenants := read()
		most := slices.SortedFunc(maps.Keys(tenants), func(a, b string) int { return cmp.Compare(tenants[b].Used, tenants[a].Used) })
		for _, name := range most[:min(len(most), storedTenants)] {
			to <- prometheus.MustNewConstMetric(stored, prometheus.GaugeValue, float64(tenants[name].Used), name)
			to <- prometheus.MustNewConstMetric(limit, prometheus.GaugeValue, float64(tenants[name].Limit), name)
		}
	}))
}

const (
	// lagTimeout bounds how long a scrape waits for the log.
	lagTimeout = 2 * time.Second
	// lagFresh is how long an answer of the log is repeated.
	lagFresh = time.Second
)

// QueueLag has weir_queue_lag{queue} read at each scrape, though not more than once a
// second: one scrape that waits answers the others. If the log does not answer within two
// seconds there is no series: a scaler holds its state then, while a zero would make it stop
// every worker. It is called once.
func (m *Metrics) QueueLag(read func(ctx context.Context) (map[schemas.Queue]uint64, error)) {
	lag := prometheus.NewDesc("weir_queue_lag",
		"Messages of actions that are queued or with a worker, over all partitions and nodes.", []string{"queue"}, nil)
	var mu sync.Mutex
	var asked time.Time
	var known map[schemas.Queue]uint64
	m.registry.MustRegister(scraped(func(to chan<- prometheus.Metric) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(asked) >= lagFresh {
			ctx, cancel := context.WithTimeout(context.Background(), lagTimeout)
			defer cancel()
			var err error
			if known, err = read(ctx); err != nil {
				known = nil
			}
			asked = time.Now()
		}
		for queue, n := range known {
			to <- prometheus.MustNewConstMetric(lag, prometheus.GaugeValue, float64(n), string(queue))
		}
	}))
}
