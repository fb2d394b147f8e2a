package telemetry

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/schemas"
)

const (
	// lagTimeout bounds how long a scrape waits for the log.
	lagTimeout = 2 * time.Second
	// lagFresh is how long what the log said is repeated without asking it again.
	lagFresh = time.Second
)

// lag is the collector of weir_queue_lag. It asks at a scrape, so that who does not scrape
// pays nothing, and one that waits answers the others that have come meanwhile.
type lag struct {
	desc *prometheus.Desc

	mu    sync.Mutex
	read  func(ctx context.Context) (map[schemas.Queue]uint64, error) // nil: nobody asks here
	asked time.Time
	known map[schemas.Queue]uint64 // nil: the log could not say
}

// QueueLag has weir_queue_lag{queue} read at each scrape, though not more than once a
// second. Where the log cannot say within two seconds there is no series: a scaler holds
// what it has then, while a zero would have it stop every worker. A later call replaces
// what is asked; before the first there is no series.
func (m *Metrics) QueueLag(read func(ctx context.Context) (map[schemas.Queue]uint64, error)) {
	m.lag.mu.Lock()
	defer m.lag.mu.Unlock()
	m.lag.read, m.lag.asked = read, time.Time{}
}

// queue registers what tells of the queue.
func (m *Metrics) queue() {
	m.lag = &lag{desc: prometheus.NewDesc("weir_queue_lag",
		"Messages of actions that are queued or with a worker, over all partitions and nodes.", []string{"queue"}, nil)}
	m.registry.MustRegister(m.lag)
}

// Describe implements prometheus.Collector.
func (l *lag) Describe(to chan<- *prometheus.Desc) { to <- l.desc }

// Collect implements prometheus.Collector.
func (l *lag) Collect(to chan<- prometheus.Metric) {
	for queue, n := range l.now() {
		to <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, float64(n), string(queue))
	}
}

func (l *lag) now() map[schemas.Queue]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.read == nil || time.Since(l.asked) < lagFresh {
		return l.known
	}
	ctx, cancel := context.WithTimeout(context.Background(), lagTimeout)
	defer cancel()
	known, err := l.read(ctx)
	if err != nil {
		known = nil
	}
	l.known, l.asked = known, time.Now()
	return known
}
