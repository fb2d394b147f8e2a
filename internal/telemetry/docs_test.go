package telemetry_test

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"weir/internal/limits"
	"weir/internal/telemetry"
	"weir/internal/weirtest/fixture"
	"weir/schemas"
)

// metric is a row of the page of metrics.
type metric struct{ name, kind, labels, help string }

// described reads the text of a description, which shows its parts in no other way.
var described = regexp.MustCompile(`fqName: "([^"]+)", help: ("(?:[^"\\]|\\.)*"), .*variableLabels: \{([^}]*)\}`)

// TestDocsListTheMetrics compares docs/reference/metrics.md with the registered metrics.
func TestDocsListTheMetrics(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	m.TenantBytes(func() map[string]limits.Quota { return map[string]limits.Quota{"t": {}} })
	m.QueueLag(func(context.Context) (map[schemas.Queue]uint64, error) {
		return map[schemas.Queue]uint64{"new": 1}, nil
	})
	families, err := telemetry.Registry(m).Gather()
	require.NoError(t, err)
	kinds := map[string]string{} // of the metrics that have values
	for _, f := range families {
		kinds[f.GetName()] = strings.ToLower(f.GetType().String())
	}
	var metrics []metric
	descriptions := make(chan *prometheus.Desc, 1000)
	telemetry.Describe(m, descriptions)
	close(descriptions)
	for d := range descriptions {
		parts := described.FindStringSubmatch(d.String())
		require.NotNil(t, parts, d.String())
		help, err := strconv.Unquote(parts[2])
		require.NoError(t, err)
		labels := strings.FieldsFunc(parts[3], func(r rune) bool { return r == ',' || r == ' ' })
		if kinds[parts[1]] == "" {
			kinds[parts[1]] = registered(t, m, parts[1], help, labels)
		}
		metrics = append(metrics, metric{parts[1], kinds[parts[1]], strings.Join(labels, "`, `"), help})
	}
	for _, f := range families { // those that are read at each scrape describe nothing
		if slices.ContainsFunc(metrics, func(m metric) bool { return m.name == f.GetName() }) {
			continue
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		metrics = append(metrics, metric{f.GetName(), kinds[f.GetName()], strings.Join(labels, "`, `"), f.GetHelp()})
	}
	slices.SortFunc(metrics, func(a, b metric) int { return cmp.Compare(a.name, b.name) })
	var b strings.Builder
	for _, m := range metrics {
		if strings.HasPrefix(m.name, "go_") || strings.HasPrefix(m.name, "process_") {
			continue
		}
		labels := ""
		if m.labels != "" {
			labels = "; labels `" + m.labels + "`"
		}
		fmt.Fprintf(&b, "- `%s` (%s%s): %s\n", m.name, m.kind, labels, m.help)
	}
	fixture.Page(t, "../../docs/reference/metrics.md", "metrics", b.String())
}

// registered is the type of a registered metric: the registry gives the collector to who registers its like.
func registered(t *testing.T, m *telemetry.Metrics, name, help string, labels []string) string {
	t.Helper()
	if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
		return ""
	}
	like := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	var there prometheus.AlreadyRegisteredError
	err := telemetry.Registry(m).Register(like)
	require.ErrorAs(t, err, &there, "%s: %v", name, err)
	switch there.ExistingCollector.(type) {
	case *prometheus.GaugeVec, prometheus.Gauge: // a gauge has all that a counter has
		return "gauge"
	case *prometheus.CounterVec, prometheus.Counter:
		return "counter"
	case *prometheus.HistogramVec, prometheus.Histogram:
		return "histogram"
	}
	require.Failf(t, "a type that the page has no name for", "%s: %T", name, there.ExistingCollector)
	return ""
}
