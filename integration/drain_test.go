//go:build e2e

package integration_test

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// TestDrainLeavesNothingUnknown asks the program to end while a call that must
// not be repeated is under way: it waits for the answer, gives it to whoever
// waits, and ends with 0.
func TestDrainLeavesNothingUnknown(t *testing.T) {
	t.Parallel()
	upstream := newLedgerServer(t)
	dir, config := t.TempDir(), policyFile(t, upstream.URL)
	w := serve(t, dir, "--config", config)
	body := fmt.Sprintf(`{"type":"Http","request_id":"slow","args":{"method":"POST","url":"%s/slow","body":{}}}`, upstream.URL)
	answered := make(chan string, 1)
	go func() {
		_, text, err := w.try(t.Context(), http.MethodPost, "/v1/execute", body)
		if err != nil {
			text = err.Error()
		}
		answered <- text
	}()
	<-upstream.arrived
	w.beginDrain(t)
	upstream.open()
	assert.Contains(t, <-answered, `"status":200`)
	_, err := w.Wait(t.Context())
	require.NoError(t, err)

	w = serve(t, dir, "--config", config)
	events := allEvents(t, w, "slow")
	last := events[len(events)-1]
	require.NotNil(t, last.Settled)
	assert.Equal(t, schemas.OutcomeSucceeded, last.Settled.Outcome)
	assert.Equal(t, 1, upstream.count(http.MethodPost, "/slow"))
}

// beginDrain asks the program to end and returns when it has begun to: the
// listener closes first, and a new connection is refused.
func (w *weir) beginDrain(tb testing.TB) {
	tb.Helper()
	require.NoError(tb, w.Signal(syscall.SIGTERM))
	for {
		if _, _, err := w.try(tb.Context(), http.MethodGet, "/healthz", "", "Connection", "close"); err != nil {
			return
		}
	}
}

// TestDrainBeginsNothingNew asks the program to end in the middle of a plan: the
// call under way is finished, the next one is left to whoever starts next.
func TestDrainBeginsNothingNew(t *testing.T) {
	t.Parallel()
	upstream := newLedgerServer(t)
	dir, config := t.TempDir(), policyFile(t, upstream.URL)
	w := serve(t, dir, "--config", config)
	decisions := make([]string, 3)
	for i := range decisions {
		decisions[i] = fmt.Sprintf(`{"effect_ref":"e%d","target_state":{"method":"POST","url":"%s/%d","allowlist_key":"up","body":{}}}`, i, upstream.URL, i)
	}
	body := fmt.Sprintf(`{"request_id":"plan","state:env.snapshot":{},"artifact:proposed.plan":{"decisions":[%s]}}`, strings.Join(decisions, ","))
	resp, text := w.request(t, http.MethodPost, "/v1/plans", body, "Prefer", "respond-async")
	require.Equal(t, http.StatusAccepted, resp.StatusCode, text)
	<-upstream.arrived
	w.beginDrain(t)
	upstream.open()
	_, err := w.Wait(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, upstream.count(http.MethodPost, "/0"))
	assert.Zero(t, upstream.count(http.MethodPost, "/2"), "nothing new is begun")

	w = serve(t, dir, "--config", config)
	events := allEvents(t, w, "plan")
	last := events[len(events)-1]
	require.NotNil(t, last.Settled)
	assert.Equal(t, schemas.OutcomeSucceeded, last.Settled.Outcome)
	for i := range decisions {
		assert.Equal(t, 1, upstream.count(http.MethodPost, fmt.Sprintf("/%d", i)))
	}
}
