package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/capture"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// TestATargetsFailureIsObserved: the log line names the code at level INFO, and both histograms count
// the request and its action.
func TestATargetsFailureIsObserved(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(target.Close)
	var logs capture.Buffer
	a := newApp(t, "", func(o *Options) { o.Log = &logs })
	a.asks(t, http.StatusBadGateway, http.MethodPost, "/v1/execute", get(target.URL+"/missing"))
	a.asks(t, http.StatusOK, http.MethodGet, "/v1/actions", "")

	lines := map[string]map[string]any{}
	poll.Until(t, func() bool { // a line is written after its answer
		for line := range strings.Lines(logs.String()) {
			var l map[string]any
			if json.Unmarshal([]byte(line), &l) == nil && l["msg"] == "request" {
				lines[fmt.Sprint(l["method"])] = l
			}
		}
		return len(lines) == 2
	})
	assert.Equal(t, "INFO", lines["POST"]["level"])
	assert.Equal(t, string(schemas.HTTPFailure), lines["POST"]["code"])
	assert.Equal(t, "executor", lines["POST"]["surface"])
	assert.Equal(t, "actions", lines["GET"]["surface"])

	page, _ := a.asks(t, http.StatusOK, http.MethodGet, "/metrics", "")
	for _, series := range []string{
		`weir_request_duration_seconds_count{status="5xx",surface="executor",use="write"} 1`,
		`weir_request_duration_seconds_count{status="2xx",surface="actions",use="read"} 1`,
		`weir_action_duration_seconds_count{kind="http",outcome="failed"} 1`,
		`weir_build_info{goversion="go`,
	} {
		require.Contains(t, page, series)
	}
}
