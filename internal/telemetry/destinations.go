package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"weir/schemas"
)

// destinationSeries describe which calls are held back.
type destinationSeries struct {
	paused     *prometheus.GaugeVec
	open       *prometheus.GaugeVec
	held       map[string]prometheus.Counter // by what they wait for
	operations *prometheus.GaugeVec
}

func (m *Metrics) destinations() {
	m.destination.paused = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_destination_paused", Help: "Destinations of an entry that asked to be left alone, by 429 or Retry-After, and are.",
	}, []string{"entry"})
	m.destination.open = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_destination_breaker_open", Help: "Destinations of an entry that are left alone because they failed too often in a row.",
	}, []string{"entry"})
	m.destination.operations = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_operations", Help: "What operators have decided, and have not taken back.",
	}, []string{"do"})
	m.registry.MustRegister(m.destination.paused, m.destination.open, m.destination.operations)
	m.OperationsInForce(0, 0)
	m.destination.held = perValue(m.counters("weir_calls_held_total",
		"Calls that were not let through at once, by what they waited for.", "reason"),
		[]string{schemas.WaitLimit, schemas.WaitCapacity, schemas.WaitDestination, schemas.WaitPaused, other})
}

// DestinationsLeft says how many destinations of an entry are left alone now. The entry is
// a name of the policy's.
func (m *Metrics) DestinationsLeft(entry string, asked, open int) {
	if !entryName(entry) {
		entry = other
	}
	m.destination.paused.WithLabelValues(entry).Set(float64(asked))
	m.destination.open.WithLabelValues(entry).Set(float64(open))
}

// CallHeld counts a call that was not let through at once.
func (m *Metrics) CallHeld(why string) {
	c, ok := m.destination.held[why]
	if !ok {
		c = m.destination.held[other]
	}
	c.Inc()
}

// OperationsInForce says how many operators' decisions there are of each sort.
func (m *Metrics) OperationsInForce(pauses, pins int) {
	m.destination.operations.WithLabelValues(schemas.OperationPause).Set(float64(pauses))
	m.destination.operations.WithLabelValues(schemas.OperationPin).Set(float64(pins))
}
