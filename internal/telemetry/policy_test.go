package telemetry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"weir/internal/telemetry"
)

func TestPolicySeries(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	series := scrape(t, m)
	assert.Equal(t, "0", series[`weir_policy_reloads_total{result="ok"}`])
	assert.Equal(t, "0", series[`weir_policy_reloads_total{result="failed"}`])

	m.PolicyReloaded(true)
	m.PolicyReloaded(true)
	m.PolicyReloaded(false)
	m.PolicyInForce("v1", time.Unix(1, 0))
	m.PolicyInForce("v2", time.UnixMilli(2500))
	m.Shadowed("orders", true)
	m.Shadowed("orders", false)
	m.Shadowed("host:localhost:8080", false)
	m.Shadowed("CANARY with a space", false)
	series = scrape(t, m)
	for name, want := range map[string]string{
		`weir_policy_reloads_total{result="ok"}`:                             "2",
		`weir_policy_reloads_total{result="failed"}`:                         "1",
		`weir_policy_info{version="v2"}`:                                     "1",
		`weir_policy_since_timestamp_seconds`:                                "2.5",
		`weir_policy_shadow_total{entry="orders",would="allow"}`:             "1",
		`weir_policy_shadow_total{entry="orders",would="deny"}`:              "1",
		`weir_policy_shadow_total{entry="host:localhost:8080",would="deny"}`: "1",
		`weir_policy_shadow_total{entry="other",would="deny"}`:               "1",
	} {
		assert.Equal(t, want, series[name], name)
	}
	for name := range series {
		assert.False(t, strings.Contains(name, `version="v1"`) || strings.Contains(name, "CANARY"), name)
	}
}
