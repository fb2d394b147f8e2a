package integration_test

import (
	"fmt"
	"net/http"
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
	require.NoError(t, w.cmd.Process.Signal(syscall.SIGTERM))
	// The listener closes first: when a new connection is refused, the drain has begun.
	for {
		if _, _, err := w.try(t.Context(), http.MethodGet, "/healthz", "", "Connection", "close"); err != nil {
			break
		}
	}
	upstream.open()
	assert.Contains(t, <-answered, `"status":200`)
	<-w.exited
	require.NoError(t, w.err)

	w = serve(t, dir, "--config", config)
	events := allEvents(t, w, "slow")
	last := events[len(events)-1]
	require.NotNil(t, last.Settled)
	assert.Equal(t, schemas.OutcomeSucceeded, last.Settled.Outcome)
	assert.Equal(t, 1, upstream.count(http.MethodPost, "/slow"))
}
