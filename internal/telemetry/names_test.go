package telemetry_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"weir/internal/limits"
	"weir/internal/telemetry"
	"weir/schemas"
)

// TestDeployedNames: every metric that the alerts, the dashboard and the scaler ask for is
// one that a node has.
func TestDeployedNames(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	m.QueueLag(func(context.Context) (map[schemas.Kind]uint64, error) { return nil, nil })
	m.TenantBytes(func() map[string]limits.Room {
		return map[string]limits.Room{"t": {Used: 1, Limit: 2}}
	})
	var registered []*prometheus.Desc
	found := make(chan *prometheus.Desc)
	go func() {
		defer close(found)
		telemetry.Describe(m, found)
	}()
	for d := range found {
		registered = append(registered, d)
	}
	known := map[string]bool{}
	quoted := regexp.MustCompile(`fqName: "([^"]+)"`)
	for _, d := range registered {
		name := quoted.FindStringSubmatch(d.String())[1]
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			known[name+suffix] = true
		}
	}
	files := []string{"../../deploy/kubernetes/keda/scaledobject.yaml"}
	for _, pattern := range []string{"../../deploy/prometheus/*.yaml", "../../deploy/grafana/*.json"} {
		more, err := filepath.Glob(pattern)
		require.NoError(t, err)
		files = append(files, more...)
	}
	require.Len(t, files, 5)
	// A name that a label or a brace follows, or a range, or the end of a selector.
	name := regexp.MustCompile(`\b(weir|gen_ai|executor)_[a-z_]+\b\s*[{\[)=]`)
	asked := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, hit := range name.FindAllString(string(data), -1) {
			hit = strings.TrimRight(hit, " \n{[)=")
			if strings.HasPrefix(hit, "gen_ai_") && strings.HasSuffix(hit, "_name") { // a label
				continue
			}
			if hit == "gen_ai_request_model" || hit == "gen_ai_token_type" {
				continue
			}
			asked++
			require.True(t, known[hit], "%s asks for %s", file, hit)
		}
	}
	require.Greater(t, asked, 40)
}
